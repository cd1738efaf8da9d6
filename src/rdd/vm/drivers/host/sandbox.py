# SPDX-License-Identifier: Apache-2.0
"""The namespaces of an engine, as the agent uses them.

A `NamespaceBuilder` creates them with `enter.py`. From then on their first process, recorded
with its identity, represents them (`Sandbox`): the file system of the namespaces is below
`/proc/<pid>/root`. The agent opens sockets in their network without a process there: a socket
belongs to the network namespace of its thread at the time of its creation.
"""

import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.processes import Identity, identity
from rdd.host.spawn import popen
from rdd.vm.drivers.host.commands import search_path
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.services import in_run

_ENTER = Path(__file__).with_name("enter.py")
_CLONE_NEWNET = 0x40000000
_STEP_S = 30.0


class Sandbox:
    """The namespaces of a process."""

    def __init__(self, process: Identity) -> None:
        self.process = process
        self._inside = self._open_network(process.pid)
        self._outside = self._open_network("self")
        self._libc = ctypes.CDLL(None, use_errno=True)

    @staticmethod
    def _open_network(pid: int | str) -> int:
        try:
            return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise HostError.from_os(f"enter the network of process {pid}", error) from error

    def path(self, inside: str) -> Path:
        """Return the path outside for a path in the namespaces.

        Only paths below /run differ. /var/run is an absolute link that would lead outside.
        """
        inside = in_run(inside)
        return Path(f"/proc/{self.process.pid}/root{inside}")

    def socket(self, family: int, kind: int) -> socket.socket:
        """Return a non-blocking socket in the network of the namespaces. Raises OSError."""
        self._set_network(self._inside)
        try:
            made = socket.socket(family, kind | socket.SOCK_NONBLOCK)
        finally:
            self._set_network(self._outside)
        return made

    def _set_network(self, descriptor: int) -> None:
        if self._libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")

    def close(self) -> None:
        """Release the namespaces, which otherwise cannot disappear."""
        for descriptor in (self._inside, self._outside):
            if descriptor >= 0:
                os.close(descriptor)
        self._inside = self._outside = -1


class NamespaceBuilder:
    """Creates namespaces step by step; blocking, so it runs in a thread.

    Their first process waits for `start_services`; without it, it ends when the pipe closes.
    """

    def __init__(self, paths: MachinePaths, name: str) -> None:
        try:
            self._program = popen(
                [sys.executable, "-I", "-S", "-B", str(_ENTER), name, str(paths.staging)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"PATH": search_path(os.environ)},
                start_new_session=True,
            )
        except OSError as error:
            raise HostError.from_os(f'start "{sys.executable}"', error) from error
        self._rest = b""
        self.process: Identity | None = None

    def wait(self) -> Identity:
        """Return the first process of the namespaces. Raises HostError."""
        pid = int(self._receive("pid"))
        self._program.wait()
        self.process = identity(pid)
        if self.process is None:
            raise HostError(f"the namespaces ended at once: {self._receive('ready')}")
        return self.process

    def start_services(self, plan: dict[str, Any]) -> None:
        """Send the plan, which starts the services. Raises HostError."""
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(json.dumps(plan).encode() + b"\n")
            self._program.stdin.flush()
        except OSError as error:
            raise HostError.from_os("enter the namespaces", error) from error
        self._receive("ready")

    def close(self) -> None:
        for pipe in (self._program.stdin, self._program.stdout):
            if pipe is not None:
                pipe.close()
        if self._program.poll() is None:
            self._program.kill()
            self._program.wait()

    def _receive(self, wanted: str) -> Any:
        """Return the member `wanted` of the next message that has it. Raises HostError."""
        assert self._program.stdout is not None
        descriptor = self._program.stdout.fileno()
        deadline = time.monotonic() + _STEP_S
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                message = json.loads(line)
                if "error" in message:
                    raise HostError(
                        f"cannot create the namespaces of the engine: {message['error']}"
                    )
                if wanted in message:
                    return message[wanted]
            if not select.select([descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
                raise HostError(
                    f"the namespaces of the engine were not created within {_STEP_S:g} s"
                )
            chunk = os.read(descriptor, 4096)
            if not chunk:
                raise HostError("cannot create the engine's namespaces: their process ended")
            self._rest += chunk
