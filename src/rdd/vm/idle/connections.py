# SPDX-License-Identifier: Apache-2.0
"""Observers of one connection of a client each, called by the relay that carries it.

What a connection of a forwarded port carries is unknown, often encrypted. So every byte is an
activity, in both directions, and a client that sent the last byte waits for an answer: its
request is in progress. A connection on which the server sent last is a keep-alive: it does not
count, and stays open. Only an answer of HTTP that changes the protocol (a WebSocket) ends that
rule, because its messages need no answer.
"""

from typing import Protocol

from rdd.vm.idle.activity import Activity

_UPGRADES = (b"HTTP/1.1 101", b"HTTP/1.0 101")


class ConnectionObserver(Protocol):
    """Sees the bytes of one connection, in order."""

    shown_bytes: int
    """How many bytes at the start of each piece of data are needed."""

    def opened(self) -> None:
        """Called when the client has connected."""

    def from_client(self, data: bytes) -> None:
        """Called for every piece of data of the client."""

    def from_server(self, data: bytes) -> None:
        """Called for every piece of data of the server."""

    def client_ended(self) -> None:
        """Called when the client sends no more; it may still wait for an answer."""

    def closed(self) -> None:
        """Called once, when the connection has ended."""


class PortObserver:
    """Observes a connection to a forwarded port."""

    shown_bytes = len(_UPGRADES[0])

    def __init__(self, activity: Activity, address: str) -> None:
        self._activity = activity
        self._cause = f"a client of {address}"
        self._is_upgraded = False

    def opened(self) -> None:
        """Count the connection itself: in many protocols the server is the first to send."""
        self._activity.touch(self._cause)

    def from_client(self, data: bytes) -> None:
        if self._is_upgraded:
            self._activity.touch(self._cause)
        else:
            self._activity.begin(self, self._cause)

    def from_server(self, data: bytes) -> None:
        if data.startswith(_UPGRADES):
            self._is_upgraded = True
        self._activity.end(self)
        self._activity.touch(self._cause)

    def client_ended(self) -> None:
        """Count it: the server may have to answer, or to end the connection."""
        self._activity.touch(self._cause)

    def closed(self) -> None:
        self._activity.end(self)
