# SPDX-License-Identifier: Apache-2.0
"""ConfigMapReplicaSet: a number of identical ConfigMaps."""

from collections.abc import Mapping, Sequence

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import Condition
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class ConfigMapReplicaSetSpec(Struct):
    """The desired ConfigMaps."""

    replicas: int | None = field(
        "Desired number of ConfigMaps. Defaults to one.", default=None, schema=constraints.INT32
    )
    data: Mapping[str, str] = field("Data of each ConfigMap.", default=UNSET)


class ConfigMapReplicaSetStatus(Struct):
    """The observed ConfigMaps."""

    ready_replicas: int = field("Number of existing ConfigMaps.", schema=constraints.INT32)
    conditions: Sequence[Condition] = field("The state of the ConfigMaps: Ready.", default=UNSET)


class ConfigMapReplicaSet(Kind, group=names.RDD_GROUP, short_names=("cmrs",)):
    """A number of identical ConfigMaps."""

    spec: ConfigMapReplicaSetSpec = field("The desired ConfigMaps.", default=UNSET)
    status: ConfigMapReplicaSetStatus = field("The observed ConfigMaps.", default=UNSET)
