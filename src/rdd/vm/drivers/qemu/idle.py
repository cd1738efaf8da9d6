# SPDX-License-Identifier: Apache-2.0
"""Idle detection of a guest: its clients, its containers, its pause and its suspension.

Clients are observed by relays (`relayed_forwards`). What they do not see keeps the guest awake:
connections that ssh accepted before, and an open shell.

The ssh process of a paused guest is stopped together with it. It would otherwise miss the answers
to its keep-alive messages and end, and with it every connection. Both continue together.

A suspended guest has no emulator, so no connection into it survives. It is suspended only while
no client is connected, and paused instead otherwise. New clients are held from the moment before
its CPUs are stopped: none can reach a guest that is about to end.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.drivers.qemu.qmp import Qmp
from rdd.vm.drivers.qemu.relayed_forwards import RelayedForwards
from rdd.vm.drivers.qemu.unobserved import unobserved
from rdd.vm.idle.activity import Activity
from rdd.vm.idle.labels import labelled
from rdd.vm.idle.load import ContainerLoad, Loads
from rdd.vm.idle.settings import IdleAction
from rdd.vm.ssh import SshError, master_pid

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


class SuspendableGuest(Protocol):
    """What the driver can do with its guest."""

    @property
    def qmp(self) -> Qmp | None:
        """The control connection; None without an emulator."""

    @property
    def is_suspended(self) -> bool:
        """Whether the memory is saved and the emulator has ended."""

    def suspend_problem(self) -> str:
        """Return why the memory cannot be saved; empty if it can."""

    async def suspend_idle(self) -> None:
        """Save the memory and end the emulator. Raises HostError; the guest then runs on."""

    async def resume_idle(self) -> None:
        """Load the memory, and connect again. Raises HostError; the machine then ends."""

    async def interrupted(self) -> None:
        """Called before a pause or a suspension."""

    def continued(self) -> None:
        """Called after a pause."""


class GuestIdle:
    """Implements `Pausable` for a guest."""

    def __init__(
        self,
        context: DriverContext,
        connection: GuestConnection,
        forwards: RelayedForwards,
        guest: SuspendableGuest,
    ) -> None:
        self._context = context
        self._connection = connection
        self._control = context.directory.ssh_sock
        self._forwards = forwards
        self._guest = guest

    def idle_problem(self, action: IdleAction) -> str:
        engine = self._context.template.param.get("CONTAINER_ENGINE", "")
        if engine == "containerd":
            return "clients of the engine containerd do not pass through the host agent"
        return ""

    def suspend_problem(self) -> str:
        return self._guest.suspend_problem()

    async def observe(self, activity: Activity, *, is_needed: bool) -> None:
        await self._forwards.observe(activity, is_needed=is_needed)

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
        for path in self._forwards.docker_sockets:
            found += await labelled(path)
        hosts = self._forwards.hosts
        return [*found, *await asyncio.to_thread(unobserved, self._control, hosts)]

    async def pause(self, action: IdleAction) -> str:
        await self._guest.interrupted()
        problem = await self._suspend() if action == "suspend" else ""
        if self._guest.is_suspended:
            return ""
        if self._guest.qmp is None:
            raise HostError("the guest does not run")
        await self._guest.qmp.execute("stop")
        with suppress(HostError):  # without it there is nothing to keep
            os.kill(master_pid(self._control), signal.SIGSTOP)
        return problem

    async def _suspend(self) -> str:
        """Suspend the guest; return why it was not."""
        if clients := self._forwards.clients:
            return f"{clients} connection(s) of clients are open, which would end"
        self._forwards.hold()
        try:
            await self._guest.suspend_idle()
        except HostError as error:
            self._forwards.release()
            return str(error)
        return ""

    async def resume(self) -> None:
        if self._guest.is_suspended:
            await self._guest.resume_idle()
            self._forwards.release()
            return
        qmp = self._guest.qmp
        if qmp is not None:
            status = await qmp.execute("query-status")
            if status.get("status") == "paused":
                await qmp.execute("cont")
                self._guest.continued()
        with suppress(HostError):
            os.kill(master_pid(self._control), signal.SIGCONT)
