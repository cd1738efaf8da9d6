# SPDX-License-Identifier: Apache-2.0
"""The ports of a container, in the object of a container and in a request."""

from collections.abc import Sequence

from rdd.kinds import constraints
from rdd.kinds.struct import UNSET, Struct, field

BY_NAME = constraints.list_map("name")
"""The schema of a list of ports: one entry per port and protocol."""


class PortBinding(Struct):
    """A host address and port on which a port is published."""

    host_ip: str = field("Host address on which the port is published.", name="hostIP")
    host_port: str = field("Host port, as text.")


class Port(Struct):
    """A port of a container and its published addresses."""

    name: str = field("Port and protocol, such as 80/tcp.")
    bindings: Sequence[PortBinding] = field(
        "Host addresses on which it is published. Without any, it is exposed but not published.",
        default=UNSET,
    )
