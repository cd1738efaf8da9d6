# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (one member per line, with its description)
"""Shapes shared by all groups: metadata, selectors, conditions, options, Status."""

PACKAGE = "io.k8s.apimachinery.pkg.apis.meta.v1"
GROUP = ""

TEXT = """
ObjectMeta  # Metadata that every stored object has.
  name                        string                            # =NAME
  generateName                string                            # Prefix of a name that the server completes, used when name is empty.
  namespace                   string                            # The namespace the name is unique in; empty for cluster-scoped objects.
  selfLink                    string                            # No longer filled in.
  uid                         types.UID(string)                 # Identifies this object among all that ever had its name. Set by the server.
  resourceVersion             string                            # Changes with every write; opaque to clients.
  generation                  int64                             # Counts the changes of the desired state. Set by the server.
  creationTimestamp           Time  zero                        # =CREATION_TIMESTAMP
  deletionTimestamp           *Time                             # When deletion was requested. Set by the server.
  deletionGracePeriodSeconds  *int64                            # Seconds the object had to terminate. Set by the server.
  labels                      map[string]string                 # Short identifying texts by key; selectors match them.
  annotations                 map[string]string                 # Texts by key for tools and people; not selectable.
  ownerReferences             []OwnerReference  by=uid merge=uid  # Objects this one depends on; it is removed with the last of them.
  finalizers                  []string  set merge               # Who must agree before the object disappears.
  managedFields               []ManagedFieldsEntry  atomic      # Which manager set which fields.

OwnerReference atomic  # Names an object that owns this one.
  apiVersion          string  !             # API version of the owner.
  kind                string  !             # Kind of the owner.
  name                string  !             # Name of the owner.
  uid                 types.UID(string)  !  # UID of the owner.
  controller          *bool                 # Whether the owner manages this object.
  blockOwnerDeletion  *bool                 # Whether foreground deletion of the owner waits for this object.

ManagedFieldsEntry  # The fields one manager has set through one kind of request.
  manager      string                               # Who set the fields.
  operation    ManagedFieldsOperationType(string)   # Apply or Update.
  apiVersion   string                               # Version of the object in which the fields are named.
  time         *Time                                # When the entry last changed.
  fieldsType   string                               # Form of the fields; FieldsV1.
  fieldsV1     *FieldsV1                            # The fields as a tree.
  subresource  string                               # Subresource of the request, if any.

ListMeta  # Metadata of a list.
  selfLink            string      # No longer filled in.
  resourceVersion     string      # The state this list shows; a watch can start from it.
  continue            string      # Token to fetch the next part with.
  remainingItemCount  *int64      # How many items follow, if known.
  shardInfo           *ShardInfo  # Which part of the items a sharded list holds.

ShardInfo  # The part of a collection a list covers.
  selector  string  !  # The shard selector of the request.

LabelSelector atomic  # Selects objects by their labels; all conditions must hold. Empty selects everything.
  matchLabels       map[string]string                   # Labels with exactly these values.
  matchExpressions  []LabelSelectorRequirement  atomic  # Conditions on label keys.

LabelSelectorRequirement  # A condition on one label.
  key       string  !                         # The label key.
  operator  LabelSelectorOperator(string)  !  # In, NotIn, Exists or DoesNotExist.
  values    []string  atomic                  # Values for In and NotIn.

FieldSelectorRequirement  # A condition on one field.
  key       string  !                         # The field.
  operator  FieldSelectorOperator(string)  !  # In, NotIn, Exists or DoesNotExist.
  values    []string  atomic                  # Values for In and NotIn.

Condition  # An observation about an object.
  type                string  !                   # Name of the observation, unique within the object.
  status              ConditionStatus(string)  !  # True, False or Unknown.
  observedGeneration  int64                       # The generation the observation is about.
  lastTransitionTime  Time  !                     # When status last changed.
  reason              string  !                   # One word for machines.
  message             string  !                   # Details for people.

Status typemeta  # The answer to a request that yields no object.
  metadata  ListMeta              # =LIST_METADATA
  status    string                # Success or Failure.
  message   string                # What happened, for people.
  reason    StatusReason(string)  # What happened, in one word.
  details   *StatusDetails        # What the answer is about.
  code      int32                 # The HTTP status.

StatusDetails  # What a Status is about.
  name               string                 # The object.
  group              string                 # Its API group.
  kind               string                 # Its resource or kind.
  uid                types.UID(string)      # Its UID.
  causes             []StatusCause  atomic  # The single problems.
  retryAfterSeconds  int32                  # When to try again.

StatusCause  # One problem of a request.
  reason   CauseType(string)  # What is wrong, in one word.
  message  string             # What is wrong, for people.
  field    string             # Where it is wrong.

DeleteOptions typemeta  # How to delete.
  gracePeriodSeconds                                *int64                        # Seconds the object may take to terminate.
  preconditions                                     *Preconditions                # Delete only if these hold.
  orphanDependents                                  *bool                         # Deprecated; use propagationPolicy.
  propagationPolicy                                 *DeletionPropagation(string)  # Orphan, Background or Foreground.
  dryRun                                            []string  atomic              # All: check everything, store nothing.
  ignoreStoreReadErrorWithClusterBreakingPotential  *bool                         # Delete even what cannot be decoded.

Preconditions  # What must be true of an object.
  uid              *types.UID(string)  # Its UID.
  resourceVersion  *string             # Its resource version.

WatchEvent  # A change seen by a watch.
  type    string  !  # ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
  object  Raw  !     # The object after the change.

APIVersions typemeta  # The versions of the core group.
  versions                    []string  !  atomic                     # The versions.
  serverAddressByClientCIDRs  []ServerAddressByClientCIDR  !  atomic  # Addresses of the server.

APIGroupList typemeta  # The groups the server offers.
  groups  []APIGroup  !  atomic  # The groups.

APIGroup typemeta  # A group and its versions.
  name                        string  !                               # Its name.
  versions                    []GroupVersionForDiscovery  !  atomic   # Its versions.
  preferredVersion            GroupVersionForDiscovery                # The version clients should use.
  serverAddressByClientCIDRs  []ServerAddressByClientCIDR  atomic     # Addresses of the server.

GroupVersionForDiscovery  # A version of a group.
  groupVersion  string  !  # Group and version.
  version       string  !  # The version alone.

ServerAddressByClientCIDR  # The address of the server for some clients.
  clientCIDR     string  !  # The clients.
  serverAddress  string  !  # The address.

APIResourceList typemeta  # The resources of a group version.
  groupVersion  string  !                 # The group version.
  resources     []APIResource  !  atomic  # Its resources.

APIResource  # A resource the server offers.
  name                string  !           # Plural name, with the subresource after a slash.
  singularName        string  !           # Singular name.
  namespaced          bool  !             # Whether objects live in namespaces.
  group               string              # Group of the kind, if another.
  version             string              # Version of the kind, if another.
  kind                string  !           # Kind of the objects.
  verbs               Verbs([]string)  !  # What can be done.
  shortNames          []string  atomic    # Abbreviations.
  categories          []string  atomic    # Groups of resources, such as all.
  storageVersionHash  string              # Changes when the stored version does.
"""
