# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (one member per line, with its description)
"""Shapes of the core group's kinds."""

PACKAGE = "io.k8s.api.core.v1"
GROUP = ""

TEXT = """
Namespace kind  # A scope for names.
  spec    NamespaceSpec    # What should be.
  status  NamespaceStatus  # What is.

NamespaceSpec  # What a namespace should be.
  finalizers  []FinalizerName(string)  atomic  # Who must finish before a deleted namespace disappears.

NamespaceStatus  # What a namespace is.
  phase       NamespacePhase(string)  enum=Active|Terminating     # Where in its life the namespace is.
  conditions  []NamespaceCondition  by=type merge=type            # What holds up a deletion.

NamespaceCondition  # An observation about a namespace.
  type                NamespaceConditionType(string)  !  # Name of the observation.
  status              ConditionStatus(string)  !         # True, False or Unknown.
  lastTransitionTime  Time                               # When status last changed.
  reason              string                             # One word for machines.
  message             string                             # Details for people.

ConfigMap kind  # Configuration for programs.
  immutable   *bool               # Whether the data can no longer change.
  data        map[string]string   # =CONFIG_MAP_DATA
  binaryData  map[string][]byte   # Bytes by key; the keys must not occur in data.

Secret kind  # Data that should not be shown.
  immutable   *bool               # Whether the data can no longer change.
  data        map[string][]byte   # =SECRET_DATA
  stringData  map[string]string   # Text that is merged into data when written; never read back.
  type        SecretType(string)  # =SECRET_TYPE

ServiceAccount kind  # An identity for programs.
  secrets                       []ObjectReference  by=name merge=name  # Secrets that pods of this account may use.
  imagePullSecrets              []LocalObjectReference  atomic         # Secrets for pulling images.
  automountServiceAccountToken  *bool                                  # Whether pods get a token mounted.

ObjectReference atomic  # Names an object.
  kind             string             # Its kind.
  namespace        string             # Its namespace.
  name             string             # Its name.
  uid              types.UID(string)  # Its UID.
  apiVersion       string             # Its API version.
  resourceVersion  string             # The version the reference is about.
  fieldPath        string             # =FIELD_PATH

LocalObjectReference atomic  # Names an object of the same namespace.
  name  string  =  # Its name.

Event kind metadata  # Something that happened to an object.
  involvedObject      ObjectReference  !  # =EVENT_OBJECT
  reason              string              # =EVENT_REASON
  message             string              # =EVENT_MESSAGE
  source              EventSource         # =EVENT_SOURCE
  firstTimestamp      Time                # =EVENT_FIRST_TIMESTAMP
  lastTimestamp       Time                # =EVENT_LAST_TIMESTAMP
  count               int32               # =EVENT_COUNT
  type                string              # =EVENT_TYPE
  eventTime           MicroTime           # When the event was first seen.
  series              *EventSeries        # The series this event belongs to, if any.
  action              string              # What was done about the object.
  related             *ObjectReference    # A second object that takes part.
  reportingComponent  string  =           # The controller that reports.
  reportingInstance   string  =           # Which copy of the controller.

EventSource  # Who reports an event.
  component  string  # The program.
  host       string  # The machine it runs on.

EventSeries  # Repetitions of an event.
  count             int32      # How often so far.
  lastObservedTime  MicroTime  # When it was last seen.

ResourceQuota kind  # Limits for a namespace.
  spec    ResourceQuotaSpec    # The limits.
  status  ResourceQuotaStatus  # The limits in force and what is used.

ResourceQuotaSpec  # Limits.
  hard           ResourceList(map[string]Quantity)    # The most there may be, by resource.
  scopes         []ResourceQuotaScope(string)  atomic enum=BestEffort|CrossNamespacePodAffinity|NotBestEffort|NotTerminating|PriorityClass|Terminating|VolumeAttributesClass  # What the limits are about.
  scopeSelector  *ScopeSelector                       # What the limits are about, as conditions.

ScopeSelector atomic  # Conditions on scopes; all must hold.
  matchExpressions  []ScopedResourceSelectorRequirement  atomic  # The conditions.

ScopedResourceSelectorRequirement  # A condition on a scope.
  scopeName  ResourceQuotaScope(string)  !  enum=BestEffort|CrossNamespacePodAffinity|NotBestEffort|NotTerminating|PriorityClass|Terminating|VolumeAttributesClass  # The scope.
  operator   ScopeSelectorOperator(string)  !  enum=DoesNotExist|Exists|In|NotIn  # How it is compared.
  values     []string  atomic  # Values for In and NotIn.

ResourceQuotaStatus  # Limits in force and what is used.
  hard  ResourceList(map[string]Quantity)  # The limits in force.
  used  ResourceList(map[string]Quantity)  # What is used.
"""
