# SPDX-License-Identifier: Apache-2.0
"""Shapes of rbac.authorization.k8s.io."""

PACKAGE = "io.k8s.api.rbac.v1"
GROUP = "rbac.authorization.k8s.io"

TEXT = """
Role kind  # Permissions within a namespace.
  rules  []PolicyRule  =  atomic  # The permissions.

ClusterRole kind  # Permissions in the whole cluster, or to be bound within namespaces.
  rules            []PolicyRule  =  atomic  # The permissions.
  aggregationRule  *AggregationRule         # Where a controller takes the permissions from, if set.

PolicyRule  # Permission for some verbs on some things.
  verbs            []string  !  atomic  # What is allowed; * is everything.
  apiGroups        []string  atomic     # Groups of the resources; "" is the core group, * all.
  resources        []string  atomic     # The resources; * is all.
  resourceNames    []string  atomic     # The only objects it holds for; empty for all.
  nonResourceURLs  []string  atomic     # Paths that are no resources; a * may end them.

AggregationRule  # Selects the cluster roles a role is made of.
  clusterRoleSelectors  []meta.LabelSelector  atomic  # A role that matches any of these is taken.

RoleBinding kind  # Gives a role to subjects within a namespace.
  subjects  []Subject  atomic  # Who gets the role.
  roleRef   RoleRef  !         # =ROLE_REF

ClusterRoleBinding kind  # Gives a cluster role to subjects everywhere.
  subjects  []Subject  atomic  # Who gets the role.
  roleRef   RoleRef  !         # =CLUSTER_ROLE_REF

RoleRef atomic  # Names the role of a binding.
  apiGroup  string  =  # Group of the role.
  kind      string  !  # Role or ClusterRole.
  name      string  !  # Name of the role.

Subject atomic  # Who gets a role.
  kind       string  !  # User, Group or ServiceAccount.
  apiGroup   string     # Group of the kind.
  name       string  !  # Name of the subject.
  namespace  string     # Namespace of a service account.
"""
