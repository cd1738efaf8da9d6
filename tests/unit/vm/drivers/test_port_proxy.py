# SPDX-License-Identifier: Apache-2.0
"""dockerd's userland proxy, with a stand-in for the agent and for docker-proxy."""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs import PIPE, Program, start_program

from rdd.vm.drivers.host import port_proxy

ARGUMENTS = (
    *("-proto", "tcp", "-host-ip", "0.0.0.0", "-host-port", "8080"),
    *("-container-ip", "172.17.0.2", "-container-port", "80"),
)
REAL = """#!/bin/sh
echo "$@"
[ -e /proc/$$/fd/4 ] && echo descriptor 4
echo 0 >&3
exec cat 3>&-
"""

# dockerd passes descriptors by number.
LAUNCHER = """
import os, sys
pipe, listener = os.dup2(int(sys.argv[1]), 100), os.dup2(int(sys.argv[2]), 101)
os.closerange(3, 100)
os.dup2(pipe, 3)
if int(sys.argv[2]):
    os.dup2(listener, 4)
os.closerange(5, 200)
os.execv(sys.argv[3], sys.argv[3:])
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(60)
        server.bind(str(tmp_path / "s"))
        server.listen()
        yield server


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Callable[..., tuple[Program[str], int]]]:
    """Return a function that starts the proxy; it returns the reading end of the status."""
    real = tmp_path / "docker-proxy"
    real.write_text(REAL)
    real.chmod(0o755)
    started: list[Program[str]] = []

    def start(*arguments: str, socket_fd: int | None = None) -> tuple[Program[str], int]:
        reading, writing = os.pipe()
        words = [sys.executable, "-I", "-S", "-B", port_proxy.__file__, str(tmp_path / "s")]
        program = start_program(
            [
                *(sys.executable, "-I", "-S", "-c", LAUNCHER, str(writing), str(socket_fd or 0)),
                *(*words, str(real), *arguments),
            ],
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=[writing, *([socket_fd] if socket_fd is not None else [])],
        )
        os.close(writing)
        started.append(program)
        return program, reading

    yield start
    for program in started:
        program.end()


def _accept(agent: socket.socket, answer: dict[str, Any]) -> tuple[socket.socket, Any]:
    connection, _ = agent.accept()
    connection.settimeout(60)
    request = json.loads(connection.makefile("rb").readline())
    connection.sendall(json.dumps(answer).encode() + b"\n")
    return connection, request


def _status(reading: int) -> str:
    with open(reading, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.parametrize("has_socket", [False, True], ids=["20.10", "listening descriptor"])
def test_becomes_docker_proxy_once_the_agent_listens(
    agent: socket.socket, proxy: Callable[..., tuple[Program[str], int]], has_socket: bool
) -> None:
    arguments = (*ARGUMENTS, *(["-use-listen-fd"] if has_socket else []))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program, reading = proxy(*arguments, socket_fd=listener.fileno() if has_socket else None)
        connection, request = _accept(agent, {"isOutside": False})
    assert request == {
        "protocol": "tcp",
        "ip": "0.0.0.0",
        "port": 8080,
        "containerIp": "172.17.0.2",
        "containerPort": 80,
    }
    assert _status(reading) == "0\n"
    assert program.stdout is not None
    assert program.stdout.readline() == " ".join(arguments) + "\n"
    if has_socket:
        assert program.stdout.readline() == "descriptor 4\n"
    with connection:
        program.kill()
        assert connection.recv(1) == b""  # the end of the proxy releases the port


def test_error_of_the_agent_is_passed_on(
    agent: socket.socket, proxy: Callable[..., tuple[Program[str], int]]
) -> None:
    program, reading = proxy(*ARGUMENTS)
    _accept(agent, {"error": "listen tcp4 0.0.0.0:8080: bind: no"})[0].close()
    assert _status(reading) == "1\nlisten tcp4 0.0.0.0:8080: bind: no"
    assert program.wait() == 1


def test_port_of_another_address_is_requested_from_every_agent(
    agent: socket.socket, proxy: Callable[..., tuple[Program[str], int]]
) -> None:
    program, reading = proxy(*ARGUMENTS)
    first, request = _accept(agent, {"isOutside": True})
    assert _status(reading) == "0\n"
    first.close()
    second, again = _accept(agent, {"isOutside": True})
    assert again == request
    program.send_signal(signal.SIGINT)  # as dockerd releases a port
    assert program.wait() == -signal.SIGINT
    second.close()


def test_sctp_is_not_requested(proxy: Callable[..., tuple[Program[str], int]]) -> None:
    _, reading = proxy("-proto", "sctp", *ARGUMENTS[2:])
    assert _status(reading) == "0\n"
