# SPDX-License-Identifier: Apache-2.0
"""Shapes of apiregistration.k8s.io."""

PACKAGE = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1"
GROUP = "apiregistration.k8s.io"

TEXT = """
APIService kind  # A group version and who serves it.
  spec    APIServiceSpec    # Who serves it.
  status  APIServiceStatus  # Whether it works.

APIServiceSpec  # Who serves a group version.
  service                *ServiceReference  # The service, or nothing if this server does.
  group                  string             # The group.
  version                string             # The version.
  insecureSkipTLSVerify  bool               # Whether the service's certificate is not checked.
  caBundle               []byte  atomic     # PEM certificates that sign the service's certificate.
  groupPriorityMinimum   int32  !           # Places the group among others.
  versionPriority        int32  !           # Places the version within the group.

ServiceReference  # Names a service.
  namespace  string  # Its namespace.
  name       string  # Its name.
  port       *int32  # Port, 443 if unset.

APIServiceStatus  # Whether a group version works.
  conditions  []APIServiceCondition  by=type merge=type  # Observations.

APIServiceCondition  # An observation about a group version.
  type                APIServiceConditionType(string)  !  # Name of the observation.
  status              ConditionStatus(string)  !          # True, False or Unknown.
  lastTransitionTime  Time                                # When status last changed.
  reason              string                              # One word for machines.
  message             string                              # Details for people.
"""
