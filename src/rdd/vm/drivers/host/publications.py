# SPDX-License-Identifier: Apache-2.0
"""Published ports that dockerd requests through `port_proxy.py`.

The agent listens on a socket in the private /run of the namespaces. A connection is one
published port: a line of JSON with the addresses, a line with the answer, and then silence
until the port is released, which is the end of the connection. So a port is forwarded before
dockerd reports the container as started, and no port stays open without its container.

dockerd passes on the text of an error, so it has docker-proxy's form: `listen tcp4
0.0.0.0:80: bind: address already in use`.
"""

import asyncio
import ipaddress
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rdd.host.files import write_atomically
from rdd.vm.drivers.host.commands import find
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.sandbox import Sandbox
from rdd.vm.drivers.protocol import Endpoint, ForwardError, Listener, PortPublisher
from rdd.vm.forwarding.sockets import listen_unix

AGENT = "/run/rdd/ports.sock"  # in the namespaces
_PROGRAM = Path(__file__).with_name("port_proxy.py")
_READ_S = 5.0
_MAX_REQUEST_BYTES = 4096


def write_proxy(paths: MachinePaths, environment: Mapping[str, str]) -> Path | None:
    """Write the program for `userland-proxy-path`; None if docker-proxy is not installed.

    Raises HostError.
    """
    real = find("docker-proxy", environment)
    if real is None:
        return None
    words = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), AGENT, str(real)]
    write_atomically(
        paths.proxy, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', mode=0o700, durable=False
    )
    return paths.proxy


async def serve(sandbox: Sandbox, guest_ip: str, publisher: PortPublisher) -> None:
    """Serve requests until cancelled. Raises HostError."""
    path = sandbox.path(AGENT)
    listener = listen_unix(path)
    inode = path.stat().st_ino

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _serve_one(reader, writer, guest_ip, publisher)
        except (OSError, TimeoutError, ValueError, KeyError, TypeError):
            pass  # no request of the proxy, or it has ended meanwhile
        finally:
            writer.close()

    server = await asyncio.start_unix_server(handle, sock=listener, limit=_MAX_REQUEST_BYTES)
    try:
        await server.serve_forever()
    finally:
        try:
            if path.stat().st_ino == inode:  # otherwise it belongs to a successor
                path.unlink()
        except OSError:
            pass  # the namespaces have ended


async def _serve_one(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    guest_ip: str,
    publisher: PortPublisher,
) -> None:
    async with asyncio.timeout(_READ_S):
        request = json.loads(await reader.readline())
    listener, target = _parse(request)
    is_outside = not _is_inside(listener.ip, guest_ip)
    try:
        publication = await publisher.publish(listener, target=target if is_outside else None)
    except ForwardError as error:
        writer.write(json.dumps({"error": _as_docker_proxy(listener, error)}).encode() + b"\n")
        await writer.drain()
        return
    try:
        writer.write(json.dumps({"isOutside": is_outside}).encode() + b"\n")
        await writer.drain()
        await reader.read()
    finally:
        await asyncio.shield(publisher.unpublish(publication))


def _parse(request: Any) -> tuple[Listener, Endpoint]:
    """Return the listener and the container's address. Raises ValueError, KeyError, TypeError."""
    protocol = request["protocol"]
    if protocol not in ("tcp", "udp"):
        raise ValueError(protocol)
    ip = str(ipaddress.ip_address(request["ip"]))
    container = str(ipaddress.ip_address(request["containerIp"]))
    ports = [request["port"], request["containerPort"]]
    if not all(type(port) is int and 0 < port < 65536 for port in ports):
        raise ValueError(ports)
    return Listener(protocol, ip, ports[0]), Endpoint(ip=container, port=ports[1])


def _is_inside(ip: str, guest_ip: str) -> bool:
    """Return whether docker-proxy can listen on an address in the namespaces."""
    return ip in ("0.0.0.0", "::", "127.0.0.1", "::1", guest_ip)


def _as_docker_proxy(listener: Listener, error: ForwardError) -> str:
    version = 6 if ":" in listener.ip else 4
    address = Endpoint(ip=listener.ip, port=listener.port)
    detail = error.cause.lower() or str(error)
    return f"listen {listener.protocol}{version} {address}: bind: {detail}"
