# SPDX-License-Identifier: Apache-2.0
"""HostInfo: what the machine has that the virtual machine could be given."""

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field


class HostInfoSpec(Struct):
    """Nothing: a HostInfo only reports."""


class HostInfoStatus(Struct):
    """What the host has."""

    cpus: int = field("Number of logical CPUs.", default=UNSET)
    memory: str = field(
        "Amount of memory, such as 16Gi.", default=UNSET, schema=constraints.QUANTITY
    )


class HostInfo(
    Kind,
    group=names.RDD_GROUP,
    namespaced=False,
    categories=("all",),
    columns=(
        Column("CPUs", "integer", ".status.cpus"),
        Column("Memory", "string", ".status.memory"),
    ),
):
    """The resources of the machine rdd runs on. There is one, named system."""

    spec: HostInfoSpec = field("Nothing: a HostInfo only reports.", default=UNSET)
    status: HostInfoStatus = field("What the host has.", default=UNSET)
