# SPDX-License-Identifier: Apache-2.0
"""The address from which rdd connects to forwarded ports of its own machines.

A TCP connection has no peer credentials, but all of 127.0.0.0/8 is the loopback on Linux. The
relay of a host agent knows rdd's own requests by it: they are no activity of a client.
"""

import sys
from typing import Final

OWN_ADDRESS: Final = "127.114.100.100"

CAN_BIND: Final = sys.platform == "linux"
"""Whether the address can be used without any configuration."""
