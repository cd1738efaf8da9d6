# SPDX-License-Identifier: Apache-2.0
"""When a machine counts as idle, in the spec of LimaVMs and Apps."""

from typing import Literal

from rdd.kinds.struct import Struct, field


class Idle(Struct):
    """When the virtual machine counts as idle, and what happens then."""

    action: Literal["none", "pause", "suspend", "stop"] = field(
        "What to do with an idle virtual machine. pause stops its CPUs (with the type host, it "
        "freezes the processes), suspend saves its memory to disk, stop shuts it down. The first "
        "byte of a client wakes a paused or suspended one.",
        default="none",
    )
    after_seconds: int = field(
        "Seconds without a request in progress and without a byte of a client. Clients are those "
        "of the Docker socket, of forwarded ports and of the Kubernetes port.",
        default=300,
        schema={"minimum": 1, "maximum": 7 * 24 * 3600},
    )
    cpu_percent: int = field(
        "A container that uses more than this share of one CPU is not idle.",
        default=5,
        schema={"minimum": 1, "maximum": 100},
    )
    network_bytes_per_second: int = field(
        "A container that sends and receives more than this is not idle.",
        default=1024,
        schema={"minimum": 0, "maximum": 1 << 30},
    )
