# SPDX-License-Identifier: Apache-2.0
"""DNS for containers: a relay between an engine's network and the resolvers of this host.

The relay listens inside the network of the engine, on its address and port 53, and sends
queries from outside it, so it reaches a resolver on the host's loopback (systemd-resolved,
dnsmasq) without a firewall in between. It reads /etc/resolv.conf for every query, because a
laptop changes networks. Without any resolver it responds with SERVFAIL at once.

The relay itself resolves the names of the template's `hostResolver.hosts` and those by which
containers address this host.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from rdd.vm.drivers.host.sandbox import Sandbox

PORT = 53
RESOLV_CONF = Path("/etc/resolv.conf")
HOST_NAMES = ("host.lima.internal", "host.docker.internal", "host.rancher-desktop.internal")
_TIMEOUT_S = 4.0
_TTL_S = 60
_MAX_QUERIES = 256
_MAX_ALIASES = 8
_A, _IN = 1, 1
_NOERROR, _SERVFAIL = 0, 2


def nameservers(resolv_conf: Path = RESOLV_CONF) -> list[str]:
    """Return the resolvers of this host, in order."""
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return []
    words = (line.split() for line in lines)
    return [w[1].partition("%")[0] for w in words if len(w) > 1 and w[0] == "nameserver"]


def resolv_conf_text(nameserver: str, resolv_conf: Path = RESOLV_CONF) -> str:
    """Return the resolv.conf of the namespaces: the relay, with the host's search list."""
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    kept = [line for line in lines if line.startswith(("search", "domain", "options"))]
    return "\n".join([f"nameserver {nameserver}", *kept, ""])


def static_names(hosts: Mapping[str, str], gateway: str) -> dict[str, str]:
    """Return addresses by name: those of this host and of the template, aliases resolved."""
    names = dict.fromkeys(HOST_NAMES, gateway)
    aliases = {name.lower().rstrip("."): target for name, target in hosts.items()}
    for name in aliases:
        target = name
        for _ in range(_MAX_ALIASES):
            if target not in aliases:
                break
            target = aliases[target].lower().rstrip(".")
        address = names.get(target, target)
        with contextlib.suppress(OSError):
            socket.inet_aton(address)
            names[name] = address
    return names


class DnsRelay:
    """Resolves names for the network of a sandbox."""

    def __init__(
        self,
        sandbox: Sandbox,
        address: str,
        names: Mapping[str, str],
        *,
        upstream: Callable[[], list[str]] = nameservers,
    ) -> None:
        self._sandbox = sandbox
        self._address = address
        self._names = names
        self._upstream = upstream
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.AbstractServer | None = None
        self._queries: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Raises OSError."""
        loop = asyncio.get_running_loop()
        datagrams = self._sandbox.socket(socket.AF_INET, socket.SOCK_DGRAM)
        streams = self._sandbox.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            streams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            datagrams.bind((self._address, PORT))
            streams.bind((self._address, PORT))
        except OSError:
            datagrams.close()
            streams.close()
            raise
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _QueryProtocol(self._on_query), sock=datagrams
        )
        self._server = await asyncio.start_server(self._on_stream, sock=streams)

    async def close(self) -> None:
        """Stop the relay."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for task in list(self._queries):
            task.cancel()
        await asyncio.sleep(0)

    def _on_query(self, query: bytes, sender: tuple[str, int]) -> None:
        if len(self._queries) >= _MAX_QUERIES:
            return  # the client retries
        task = asyncio.create_task(self._respond_to_datagram(query, sender), name="dns query")
        self._queries.add(task)
        task.add_done_callback(self._queries.discard)

    async def _respond_to_datagram(self, query: bytes, sender: tuple[str, int]) -> None:
        response = self._static_response(query) or await self._query(query)
        if response and self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(response, sender)

    def _static_response(self, query: bytes) -> bytes | None:
        parsed = parse_query(query)
        if parsed is None:
            return None
        name, kind, end = parsed
        address = self._names.get(name)
        return None if address is None else static_response(query, end, kind, address)

    async def _query(self, query: bytes) -> bytes | None:
        """Query the resolvers one after the other; SERVFAIL when none responds."""
        for server in self._upstream():
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_TIMEOUT_S):
                    return await _exchange(server, query)
        return failure(query)

    async def _on_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one query over TCP, which clients use for long responses."""
        try:
            async with asyncio.timeout(2 * _TIMEOUT_S):
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                query = await reader.readexactly(length)
                response = self._static_response(query) or await self._query_over_stream(query)
                writer.write(struct.pack("!H", len(response)) + response)
                await writer.drain()
        except (OSError, EOFError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _query_over_stream(self, query: bytes) -> bytes:
        for server in self._upstream():
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(_TIMEOUT_S):
                    reader, writer = await asyncio.open_connection(server, PORT)
                    try:
                        writer.write(struct.pack("!H", len(query)) + query)
                        (length,) = struct.unpack("!H", await reader.readexactly(2))
                        return await reader.readexactly(length)
                    finally:
                        writer.close()
        return failure(query) or b""


class _QueryProtocol(asyncio.DatagramProtocol):
    def __init__(self, on_query: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._on_query = on_query

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._on_query(data, addr)


async def _exchange(server: str, query: bytes) -> bytes:
    """Send one query over UDP; the random source port and the id prevent spoofing."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, (server, PORT))
        await loop.sock_sendall(sock, query)
        while True:
            response = await loop.sock_recv(sock, 65535)
            if response[:2] == query[:2]:
                return response


def parse_query(message: bytes) -> tuple[str, int, int] | None:
    """Return the lower-case name, the type and the end of the query; None if invalid."""
    if len(message) < 12 or message[2] & 0x80 or struct.unpack_from("!H", message, 4)[0] != 1:
        return None
    labels: list[bytes] = []
    offset = 12
    while offset < len(message):
        length = message[offset]
        if length == 0:
            if offset + 5 > len(message):
                return None
            kind, class_ = struct.unpack_from("!HH", message, offset + 1)
            if class_ != _IN:
                return None
            return b".".join(labels).decode("latin-1").lower(), kind, offset + 5
        if length > 63:
            return None
        labels.append(message[offset + 1 : offset + 1 + length])
        offset += 1 + length
    return None


def static_response(query: bytes, end: int, kind: int, address: str) -> bytes:
    """Return the response for a static name: its address, or no record of the type."""
    count = 1 if kind == _A else 0
    record = b""
    if count:
        record = struct.pack("!HHHIH", 0xC00C, _A, _IN, _TTL_S, 4) + socket.inet_aton(address)
    return _head(query, _NOERROR, count) + query[12:end] + record


def failure(query: bytes) -> bytes | None:
    """Return SERVFAIL for a query; None if the message is no query."""
    parsed = parse_query(query)
    return None if parsed is None else _head(query, _SERVFAIL, 0) + query[12 : parsed[2]]


def _head(query: bytes, code: int, answers: int) -> bytes:
    wants_recursion = query[2] & 0x01
    flags = 0x8080 | (wants_recursion << 8) | code  # a response; recursion is available
    return query[:2] + struct.pack("!HHHHH", flags, 1, answers, 0, 0)
