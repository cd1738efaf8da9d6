# SPDX-License-Identifier: Apache-2.0
"""ConfigMapReplicaSet: a number of equal ConfigMaps."""

from collections.abc import Mapping, Sequence

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import Condition
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class ConfigMapReplicaSetSpec(Struct):
    """The ConfigMaps that are wanted."""

    replicas: int | None = field(
        "How many there should be. Without it, one.", default=None, schema=constraints.INT32
    )
    data: Mapping[str, str] = field("What each of them contains.", default=UNSET)


class ConfigMapReplicaSetStatus(Struct):
    """The ConfigMaps there are."""

    ready_replicas: int = field("How many there are.", schema=constraints.INT32)
    conditions: Sequence[Condition] = field("The state of the ConfigMaps: Ready.", default=UNSET)


class ConfigMapReplicaSet(Kind, group=names.RDD_GROUP, short_names=("cmrs",)):
    """A number of equal ConfigMaps."""

    spec: ConfigMapReplicaSetSpec = field("The ConfigMaps that are wanted.", default=UNSET)
    status: ConfigMapReplicaSetStatus = field("The ConfigMaps there are.", default=UNSET)
