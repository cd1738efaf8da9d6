# SPDX-License-Identifier: Apache-2.0
"""Names for containers: a relay between an engine's network and this machine's resolvers.

It listens inside the network of the engine, on its address and port 53, and asks from outside
it, so a resolver on this machine's loopback (systemd-resolved, dnsmasq) is reached, and no
firewall of this machine is in between. /etc/resolv.conf is read again whenever it has changed:
a laptop changes networks. Without any resolver the answer is SERVFAIL, at once.

Names of the template's `hostResolver.hosts`, and those by which containers know this machine,
are answered here.
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
_ANSWER_S = 4.0
_TTL_S = 60
_MOST_QUESTIONS = 256
_LONGEST_ALIAS_CHAIN = 8
_A, _IN = 1, 1
_NOERROR, _SERVFAIL = 0, 2


def nameservers(resolv_conf: Path = RESOLV_CONF) -> list[str]:
    """The resolvers this machine uses, in order."""
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return []
    words = (line.split() for line in lines)
    return [w[1].partition("%")[0] for w in words if len(w) > 1 and w[0] == "nameserver"]


def inside_text(nameserver: str, resolv_conf: Path = RESOLV_CONF) -> str:
    """The resolv.conf of the namespaces: our relay, with this machine's search list."""
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    kept = [line for line in lines if line.startswith(("search", "domain", "options"))]
    return "\n".join([f"nameserver {nameserver}", *kept, ""])


def known_names(hosts: Mapping[str, str], gateway: str) -> dict[str, str]:
    """Names with their addresses: this machine's, and the template's, which may be aliases."""
    names = dict.fromkeys(HOST_NAMES, gateway)
    aliases = {name.lower().rstrip("."): target for name, target in hosts.items()}
    for name in aliases:
        target = name
        for _ in range(_LONGEST_ALIAS_CHAIN):
            if target not in aliases:
                break
            target = aliases[target].lower().rstrip(".")
        address = names.get(target, target)
        with contextlib.suppress(OSError):
            socket.inet_aton(address)
            names[name] = address
    return names


class DnsRelay:
    """Answers questions that are asked inside the network of a sandbox."""

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
        self._asking: set[asyncio.Task[None]] = set()

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
            lambda: _Questions(self._on_question), sock=datagrams
        )
        self._server = await asyncio.start_server(self._on_stream, sock=streams)

    async def close(self) -> None:
        """Stop answering."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for task in list(self._asking):
            task.cancel()
        await asyncio.sleep(0)

    def _on_question(self, question: bytes, sender: tuple[str, int]) -> None:
        if len(self._asking) >= _MOST_QUESTIONS:
            return  # it will be asked again
        task = asyncio.create_task(self._answer_datagram(question, sender), name="dns question")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer_datagram(self, question: bytes, sender: tuple[str, int]) -> None:
        answer = self._own_answer(question) or await self._ask(question)
        if answer and self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(answer, sender)

    def _own_answer(self, question: bytes) -> bytes | None:
        parsed = parse_question(question)
        if parsed is None:
            return None
        name, kind, end = parsed
        address = self._names.get(name)
        return None if address is None else own_answer(question, end, kind, address)

    async def _ask(self, question: bytes) -> bytes | None:
        """Ask the resolvers one after the other; SERVFAIL when none answers."""
        for server in self._upstream():
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    return await _exchange(server, question)
        return failure(question)

    async def _on_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Long answers come over TCP: one question, one answer."""
        try:
            async with asyncio.timeout(2 * _ANSWER_S):
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                question = await reader.readexactly(length)
                answer = self._own_answer(question) or await self._ask_over_stream(question)
                writer.write(struct.pack("!H", len(answer)) + answer)
                await writer.drain()
        except (OSError, EOFError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _ask_over_stream(self, question: bytes) -> bytes:
        for server in self._upstream():
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    reader, writer = await asyncio.open_connection(server, PORT)
                    try:
                        writer.write(struct.pack("!H", len(question)) + question)
                        (length,) = struct.unpack("!H", await reader.readexactly(2))
                        return await reader.readexactly(length)
                    finally:
                        writer.close()
        return failure(question) or b""


class _Questions(asyncio.DatagramProtocol):
    def __init__(self, on_question: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._on_question = on_question

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._on_question(data, addr)


async def _exchange(server: str, question: bytes) -> bytes:
    """One question over UDP; the socket's random port and the id guard against forgers."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, (server, PORT))
        await loop.sock_sendall(sock, question)
        while True:
            answer = await loop.sock_recv(sock, 65535)
            if answer[:2] == question[:2]:
                return answer


def parse_question(message: bytes) -> tuple[str, int, int] | None:
    """The name (in small letters), the type, and the end of the question; None if it is none."""
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


def own_answer(question: bytes, end: int, kind: int, address: str) -> bytes:
    """The answer for a name we know: its address, or that it has none of that type."""
    count = 1 if kind == _A else 0
    record = b""
    if count:
        record = struct.pack("!HHHIH", 0xC00C, _A, _IN, _TTL_S, 4) + socket.inet_aton(address)
    return _head(question, _NOERROR, count) + question[12:end] + record


def failure(question: bytes) -> bytes | None:
    """SERVFAIL for a question; None if it is no question."""
    parsed = parse_question(question)
    return None if parsed is None else _head(question, _SERVFAIL, 0) + question[12 : parsed[2]]


def _head(question: bytes, code: int, answers: int) -> bytes:
    wants_recursion = question[2] & 0x01
    flags = 0x8080 | (wants_recursion << 8) | code  # an answer; recursion is available
    return question[:2] + struct.pack("!HHHHH", flags, 1, answers, 0, 0)
