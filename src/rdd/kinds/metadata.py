# SPDX-License-Identifier: Apache-2.0
"""The metadata that controllers read or build.

It is not part of the schema of a kind, because the server has one schema of metadata for all kinds.
"""

from collections.abc import Mapping, Sequence

from rdd.kinds.struct import UNSET, Struct, field


class OwnerReference(Struct):
    """A reference to an owner; the object is garbage-collected with its owner."""

    api_version: str = field("API version of the owner.")
    kind: str = field("Kind of the owner.")
    name: str = field("Name of the owner.")
    uid: str = field("UID of the owner.")
    controller: bool = field("Whether the owner is the managing controller.", default=UNSET)
    block_owner_deletion: bool = field(
        "Whether a foreground deletion of the owner waits for this object.", default=UNSET
    )


class ObjectMeta(Struct):
    """Identity, labels, owners and deletion of an object."""

    name: str = field("Unique per kind and namespace.", default=UNSET)
    generate_name: str = field("Prefix of a name that the server generates.", default=UNSET)
    namespace: str = field("Empty for a cluster-scoped object.", default=UNSET)
    labels: Mapping[str, str] = field("Labels, which selectors match.", default=UNSET)
    annotations: Mapping[str, str] = field(
        "Annotations, which selectors do not match.", default=UNSET
    )
    owner_references: Sequence[OwnerReference] = field("Its owners.", default=UNSET)
    finalizers: Sequence[str] = field(
        "Keys that must be removed before the object is deleted.", default=UNSET
    )
    uid: str = field("Unique over time; set by the server.", default=UNSET)
    resource_version: str = field("Changes with every write.", default=UNSET)
    generation: int = field("Counts changes of the desired state.", default=UNSET)
    creation_timestamp: str = field("When it was created.", default=UNSET)
    deletion_timestamp: str = field("When its deletion was requested.", default=UNSET)
