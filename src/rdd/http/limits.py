# SPDX-License-Identifier: Apache-2.0
"""Limits of connections, the same for every protocol."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WireLimits:
    """What a client may send, and how long it may take."""

    head_bytes: int = 128 * 1024
    """The size of the head of a request."""
    headers: int = 500
    """The number of headers of a request."""
    head_s: float = 30.0
    """The time for the head of a request, and for a TLS handshake."""
    idle_s: float = 180.0
    """How long a connection stays open without a request."""
    connections: int = 10_000
    """Open connections; a further one replaces the oldest one without a request."""
