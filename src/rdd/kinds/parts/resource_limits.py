# SPDX-License-Identifier: Apache-2.0
"""The enforced limits of a machine of the type host, in the status of LimaVMs and Apps."""

from rdd.kinds import constraints
from rdd.kinds.struct import UNSET, Struct, field


class ResourceLimits(Struct):
    """The limits of everything that a machine of the type host runs."""

    mode: str = field(
        "How limits are enforced: cgroup v1, cgroup v2, or cgroup v2 of the user's systemd "
        "(v1, v2, v2-systemd). Empty if this host cannot enforce any.",
        default=UNSET,
    )
    cpus: int = field(
        "The enforced number of CPUs. No value means no limit: a default is not enforced.",
        default=UNSET,
    )
    memory: str = field(
        "The enforced amount of memory, without swap. No value means no limit: "
        "a default is not enforced.",
        default=UNSET,
        schema=constraints.QUANTITY,
    )
    message: str = field("Why this host cannot enforce limits.", default=UNSET)
