# SPDX-License-Identifier: Apache-2.0
"""The ports of a container, as its object shows them and as a request names them."""

from collections.abc import Sequence

from rdd.kinds import constraints
from rdd.kinds.struct import UNSET, Struct, field

BY_NAME = constraints.list_map("name")
"""Of a list of ports: one entry per port and protocol."""


class PortBinding(Struct):
    """Where on the host a port is published."""

    host_ip: str = field("Address of the host the port is published on.", name="hostIP")
    host_port: str = field("Port of the host, as text.")


class Port(Struct):
    """A port of a container and where it is published."""

    name: str = field("Port and protocol, such as 80/tcp.")
    bindings: Sequence[PortBinding] = field(
        "Where on the host it is published. Without any it is exposed but not published.",
        default=UNSET,
    )
