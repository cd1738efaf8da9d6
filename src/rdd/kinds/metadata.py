# SPDX-License-Identifier: Apache-2.0
"""The metadata of an object, as far as controllers read or build it.

It is no part of the schema of a kind: the server knows it for all kinds.
"""

from collections.abc import Mapping, Sequence

from rdd.kinds.struct import UNSET, Struct, field


class OwnerReference(Struct):
    """An object that goes when its owner does."""

    api_version: str = field("Of the owner.")
    kind: str = field("Of the owner.")
    name: str = field("Of the owner.")
    uid: str = field("Of the owner.")
    controller: bool = field("Whether the owner is the managing controller.", default=UNSET)
    block_owner_deletion: bool = field(
        "Whether a foreground deletion of the owner waits for this object.", default=UNSET
    )


class ObjectMeta(Struct):
    """Who an object is, what it is labelled with, who owns it, how it ends."""

    name: str = field("Unique per kind and namespace.", default=UNSET)
    generate_name: str = field("Prefix of a name the server makes up.", default=UNSET)
    namespace: str = field("Empty for a cluster-scoped object.", default=UNSET)
    labels: Mapping[str, str] = field("What selectors look at.", default=UNSET)
    annotations: Mapping[str, str] = field("What they do not look at.", default=UNSET)
    owner_references: Sequence[OwnerReference] = field("Its owners.", default=UNSET)
    finalizers: Sequence[str] = field("What must be done before it can go.", default=UNSET)
    uid: str = field("Unique in time; set by the server.", default=UNSET)
    resource_version: str = field("Changes with every write.", default=UNSET)
    generation: int = field("Counts changes of the desired state.", default=UNSET)
    creation_timestamp: str = field("When it was created.", default=UNSET)
    deletion_timestamp: str = field("When its deletion was asked for.", default=UNSET)
