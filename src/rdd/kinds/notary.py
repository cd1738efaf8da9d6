# SPDX-License-Identifier: Apache-2.0
"""Notary: keeps a record of the values it is given."""

from rdd.api import names
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class NotarySpec(Struct):
    """What is to be recorded, and where."""

    value: str = field("The value to record.")
    config_map_name: str = field("Name of the ConfigMap, in the same namespace, with the record.")


class NotaryStatus(Struct):
    """What has been recorded."""

    last_recorded_value: str = field("The value recorded last.", default=UNSET)
    config_map_status: str = field("What was last done to the ConfigMap.", default=UNSET)
    change_count: int = field("How many values have been recorded.", default=UNSET)


class Notary(Kind, group=names.RDD_GROUP, plural="notaries"):
    """A record of all values a field has had."""

    spec: NotarySpec = field("What is to be recorded, and where.", default=UNSET)
    status: NotaryStatus = field("What has been recorded.", default=UNSET)
