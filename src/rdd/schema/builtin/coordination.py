# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (one member per line, with its description)
"""Shapes of coordination.k8s.io."""

PACKAGE = "io.k8s.api.coordination.v1"
GROUP = "coordination.k8s.io"

TEXT = """
Lease kind  # A claim that must be renewed.
  spec  LeaseSpec  # The claim.

LeaseSpec  # A claim.
  holderIdentity        *string                            # =HOLDER_IDENTITY
  leaseDurationSeconds  *int32                             # Seconds after which an unrenewed claim is free.
  acquireTime           *MicroTime                         # When the holder took it.
  renewTime             *MicroTime                         # When the holder last renewed it.
  leaseTransitions      *int32                             # How often the holder changed.
  strategy              *CoordinatedLeaseStrategy(string)  # How a holder is chosen, if candidates are compared.
  preferredHolder       *string                            # Who should have it next.
"""
