# SPDX-License-Identifier: Apache-2.0
"""The shape of autoscaling/v1 Scale, the body of scale subresources."""

PACKAGE = "io.k8s.api.autoscaling.v1"
GROUP = "autoscaling"

TEXT = """
Scale review  # A request to scale an object.
  spec    ScaleSpec    # How many there should be.
  status  ScaleStatus  # How many there are.

ScaleSpec  # How many there should be.
  replicas  int32  # The number.

ScaleStatus  # How many there are.
  replicas  int32  !  # The number.
  selector  string    # Selects them, as in a query.
"""
