# SPDX-License-Identifier: Apache-2.0
"""Idle detection of a guest: its clients, its containers, and the pause of its CPUs.

ssh listens on the forwarded addresses itself, so nothing sees what clients send. While idle
detection is on, ssh listens on private sockets instead, and relays of this process on the
addresses. Connections that ssh accepted before stay as they are; until they end, the guest is
not paused, and neither while a shell is open, because what is typed there is not observed.

The ssh process is stopped together with the guest. It would otherwise miss the answers to its
keep-alive messages and end, and with it every connection. Both continue together.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.vm.drivers.protocol import DriverContext, Endpoint, Forward, ForwardError
from rdd.vm.drivers.qemu.guest_connection import GuestConnection, check_free
from rdd.vm.drivers.qemu.listeners import LOOP
from rdd.vm.drivers.qemu.qmp import Qmp
from rdd.vm.forwarding.sockets import listen_inet, listen_unix
from rdd.vm.forwarding.streams import StreamRelay
from rdd.vm.idle.activity import Activity
from rdd.vm.idle.connections import ConnectionObserver, PortObserver
from rdd.vm.idle.docker_paths import own_socket
from rdd.vm.idle.docker_requests import DockerObserver
from rdd.vm.idle.labels import labelled
from rdd.vm.idle.load import ContainerLoad, Loads
from rdd.vm.idle.settings import IdleAction
from rdd.vm.ssh import SshError, master_pid

_DOCKER_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
_CONNECTED_UNIX, _ESTABLISHED = "03", "01"
_HEX64 = "?" * 64
_LOADS = f"""
for d in $(find /sys/fs/cgroup -type d -name '*{_HEX64}*' 2>/dev/null); do
  cpu=
  if [ -r "$d/cpuacct.usage" ]; then cpu=$(cat "$d/cpuacct.usage")
  elif [ -r "$d/cpu.stat" ]; then cpu=$(sed -n 's/^usage_usec \\(.*\\)/\\1000/p' "$d/cpu.stat"); fi
  [ -n "$cpu" ] || continue
  p=$(head -n 1 "$d/cgroup.procs" 2>/dev/null)
  net=$(awk -F: 'NR > 2 && $1 !~ /lo$/ {{ split($2, w, " "); n += w[1] + w[9] }}
    END {{ printf "%.0f", n }}' "/proc/${{p:-0}}/net/dev" 2>/dev/null)
  echo "${{d##*/}} $cpu ${{net:-0}}"
done
"""


class GuestIdle:
    """The forwards of a guest, and `Pausable` for it."""

    def __init__(
        self,
        context: DriverContext,
        connection: GuestConnection,
        *,
        qmp: Callable[[], Qmp | None],
        continued: Callable[[], None],
    ) -> None:
        """`continued` is called after a wake-up."""
        self._context = context
        self._connection = connection
        self._control = context.directory.ssh_sock
        self._sockets = context.directory.sockets
        self._qmp = qmp
        self._continued = continued
        self._activity: Activity | None = None
        self._is_observed = False
        self._open: dict[Forward, Forward] = {}
        """The forwards, and what ssh forwards for them."""
        self._relays: dict[Forward, StreamRelay] = {}

    # -- forwards

    async def open_forward(self, forward: Forward) -> None:
        """Open a forward. Raises ForwardError."""
        if forward.guest.socket in _DOCKER_SOCKETS and not forward.reverse:
            own = Endpoint(socket=str(own_socket(Path(forward.host.socket))))
            with suppress(ForwardError):  # rdd then uses the socket of clients
                await self._connection.open_forward(replace(forward, host=own))
        if not self._is_observed or forward.reverse or forward.protocol != "tcp":
            await self._connection.open_forward(forward)
            self._open[forward] = forward
            return
        check_free(forward.host)
        inner = replace(forward, host=Endpoint(socket=str(self._inner_path(forward))))
        await self._connection.open_forward(inner)
        try:
            await self._relay(forward, inner)
        except (HostError, OSError) as error:
            await self._connection.close_forward(inner)
            if isinstance(error, OSError):
                raise ForwardError.from_os(str(forward.host), error) from error
            raise ForwardError(str(error)) from error
        self._open[forward] = inner

    async def close_forward(self, forward: Forward) -> None:
        """Close a forward and its open connections."""
        await self._close(forward)
        relay = self._relays.pop(forward, None)
        if relay is not None:
            await relay.close()
        if forward.guest.socket in _DOCKER_SOCKETS and not forward.reverse:
            own = Endpoint(socket=str(own_socket(Path(forward.host.socket))))
            await self._connection.close_forward(replace(forward, host=own))

    async def _close(self, forward: Forward) -> None:
        """Accept no more connections; open ones stay."""
        inner = self._open.pop(forward, forward)
        relay = self._relays.get(forward)
        if relay is not None:
            relay.stop_accepting()
            if forward.host.socket:
                remove(Path(forward.host.socket))
        await self._connection.close_forward(inner)

    def _inner_path(self, forward: Forward) -> Path:
        numbers = {inner.host.socket for inner in self._open.values()}
        number = 0
        while str(path := self._sockets / f"f{number}.sock") in numbers:
            number += 1
        return path

    async def _relay(self, forward: Forward, inner: Forward) -> None:
        host = forward.host
        listener = listen_unix(Path(host.socket)) if host.socket else listen_inet(host)
        relay = StreamRelay(
            listener, partial(_dial, inner.host.socket), partial(self._observer, forward)
        )
        await relay.start()
        self._relays[forward] = relay

    def _observer(self, forward: Forward) -> ConnectionObserver | None:
        if self._activity is None:
            return None
        if forward.guest.socket in _DOCKER_SOCKETS:
            return DockerObserver(self._activity)
        return PortObserver(self._activity, str(forward.host))

    # -- Pausable

    def idle_problem(self, action: IdleAction) -> str:
        engine = self._context.template.param.get("CONTAINER_ENGINE", "")
        if engine == "containerd":
            return "clients of the engine containerd do not pass through the host agent"
        return ""

    def suspend_problem(self) -> str:
        return "the emulator ends with a suspended guest, and open connections with it"

    async def observe(self, activity: Activity, *, is_needed: bool) -> None:
        self._activity = activity
        if is_needed == self._is_observed:
            return
        self._is_observed = is_needed
        for forward in list(self._open):
            await self._close(forward)
            try:
                await self.open_forward(forward)
            except ForwardError as error:
                self._context.warn(f"{forward.host} is no longer forwarded: {error}")

    async def loads(self) -> Loads:
        try:
            answer = await self._connection.run(_LOADS)
        except SshError as error:
            raise HostError(str(error)) from error
        found = {}
        for line in answer.output.splitlines():
            with suppress(ValueError):
                name, cpu, network = line.split()
                found[name] = ContainerLoad(int(cpu) / 1e9, int(network))
        return found

    async def kept_awake(self) -> Sequence[str]:
        found: list[str] = []
        for forward in self._open:
            if forward.guest.socket in _DOCKER_SOCKETS and not forward.reverse:
                found += await labelled(own_socket(Path(forward.host.socket)))
        return [*found, *await asyncio.to_thread(self._unobserved)]

    def _unobserved(self) -> list[str]:
        """Return the connections of ssh that no relay observes. Raises HostError."""
        master = master_pid(self._control)
        inodes = _sockets_of(master)
        paths = {one.host.socket for one in self._open if one.host.socket}
        ports = {one.host.port for one in self._open if one.host.port}
        clients = 0
        for words in _table("unix"):
            if len(words) > 7 and words[6] in inodes and words[5] == _CONNECTED_UNIX:
                clients += words[7] in paths
        for name in ("tcp", "tcp6"):
            for words in _table(name):
                if words[9] in inodes and words[3] == _ESTABLISHED:
                    clients += int(words[1].rpartition(":")[2], 16) in ports
        found = []
        if clients:
            found.append(f"{clients} connections were open before idle detection was on")
        if shells := _shells(self._control, master):
            found.append(f"a shell is open in the guest (process {shells[0]})")
        return found

    async def pause(self) -> None:
        qmp = self._qmp()
        if qmp is None:
            raise HostError("the guest does not run")
        await qmp.execute("stop")
        with suppress(HostError):  # without it there is nothing to keep
            os.kill(master_pid(self._control), signal.SIGSTOP)

    async def resume(self) -> None:
        qmp = self._qmp()
        if qmp is not None:
            status = await qmp.execute("query-status")
            if status.get("status") == "paused":
                await qmp.execute("cont")
                self._continued()
        with suppress(HostError):
            os.kill(master_pid(self._control), signal.SIGCONT)

    async def close(self) -> None:
        """Close all relays."""
        for forward, relay in self._relays.items():
            await relay.close()
            if forward.host.socket:
                remove(Path(forward.host.socket))
        self._relays.clear()


async def _dial(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await asyncio.get_running_loop().sock_connect(sock, path)
    except BaseException:
        sock.close()
        raise
    return sock


def _sockets_of(pid: int) -> set[str]:
    """Return the inodes of the sockets of a process."""
    found = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(entry.readlink())
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _shells(control: Path, master: int) -> list[int]:
    """Return the clients of a control socket, but those of host agents and of mounts."""
    found = []
    mark = str(control).encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == master:
            continue
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes()
            words = line.split(b"\0")
            is_client = mark in line and words[0].rpartition(b"/")[2] == b"ssh"
            if is_client and LOOP.encode() not in words and b"sshfs" not in line:
                found.append(int(entry.name))
    return found


def _table(name: str) -> list[list[str]]:
    try:
        lines = Path(f"/proc/self/net/{name}").read_text().splitlines()
    except OSError:
        return []
    return [words for line in lines[1:] if len(words := line.split()) > 6]
