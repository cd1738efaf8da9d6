# SPDX-License-Identifier: Apache-2.0
"""HostInfo: the resources of the host that are available to the virtual machine."""

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field


class HostInfoSpec(Struct):
    """Empty: a HostInfo only reports."""


class HostInfoStatus(Struct):
    """The resources of the host."""

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
    """The resources of the host. A singleton named system."""

    spec: HostInfoSpec = field("Empty: a HostInfo only reports.", default=UNSET)
    status: HostInfoStatus = field("The resources of the host.", default=UNSET)
