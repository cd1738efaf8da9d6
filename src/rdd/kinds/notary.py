# SPDX-License-Identifier: Apache-2.0
"""Notary: records the values of a field."""

from rdd.api import names
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class NotarySpec(Struct):
    """The value to record and the target ConfigMap."""

    value: str = field("The value to record.")
    config_map_name: str = field("Name of the ConfigMap, in the same namespace, with the record.")


class NotaryStatus(Struct):
    """The recorded values."""

    last_recorded_value: str = field("The value recorded last.", default=UNSET)
    config_map_status: str = field("The last operation on the ConfigMap.", default=UNSET)
    change_count: int = field("Number of recorded values.", default=UNSET)


class Notary(Kind, group=names.RDD_GROUP, plural="notaries"):
    """A record of all values of a field."""

    spec: NotarySpec = field("The value to record and the target ConfigMap.", default=UNSET)
    status: NotaryStatus = field("The recorded values.", default=UNSET)
