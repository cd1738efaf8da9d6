# SPDX-License-Identifier: Apache-2.0
"""The ssh connection to a guest, and what goes through it.

One control master carries all forwards and commands. When it is lost (a guest that was
frozen, a network that was reset) it is made again and gets back what it carried. What it carries is
kept on disk: the next agent finds a living master and takes back what this one had opened.

ssh does not say why it cannot listen somewhere, so an address is tried here first.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rdd.host.commands import CommandResult
from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import Endpoint, Forward, ForwardError, Unmet
from rdd.vm.forwarding.sockets import SocketInUse, check_length, clear_stale, listen_inet
from rdd.vm.problem import ADDRESS_IN_USE
from rdd.vm.ssh import ControlMaster, SshError, SshTarget, has_banner, run

_RECONNECT_S = 1.0
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}

Carried = tuple[str, bool]
"""What `ssh -L` (or `-R`, if True) is given."""


class GuestConnection:
    """The connection to one guest."""

    def __init__(
        self,
        target: SshTarget,
        *,
        log: Path,
        keep: Callable[[tuple[Carried, ...]], None],
        warn: Callable[[str], None],
    ) -> None:
        self.target = target
        self._master = ControlMaster(target, log=log)
        self._keep = keep
        self._warn = warn
        self._carried: dict[Carried, None] = {}
        self._keeping: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Log in, once there is somebody to log in to. Raises Unmet."""
        if self._keeping is not None:
            return
        await self._log_in()
        self._watch()

    async def adopt(self, carried: tuple[Carried, ...]) -> None:
        """Use the master that another agent left, without what that one had it carry."""
        if await self._master.adopt():
            for specification, reverse in carried:
                await self._master.close_forward(specification, reverse=reverse)
            self._watch()
        self._keep(())

    async def run(self, line: str, *, script: str = "", timeout_s: float = 30) -> CommandResult:
        """Run a line in the guest. Raises SshError, also when the guest cannot be reached."""
        answer = await run(self.target, line, script=script, timeout_s=timeout_s)
        if answer.status == 255:
            raise SshError(answer.errors.strip() or "the connection to the guest is lost")
        return answer

    async def open_forward(self, forward: Forward) -> None:
        """Carry connections. Raises ForwardError."""
        if forward.protocol != "tcp":
            raise ForwardError(
                f"{forward.protocol} is not forwarded by the qemu driver", permanent=True
            )
        if not forward.reverse:
            _check_free(forward.host)
        carried = (specification(forward), forward.reverse)
        try:
            await self._master.open_forward(carried[0], reverse=carried[1])
        except SshError as error:
            raise ForwardError(f"{forward.host}: {error}") from error
        self._carried[carried] = None
        self._keep(tuple(self._carried))

    async def close_forward(self, forward: Forward) -> None:
        """Stop carrying new connections."""
        carried = (specification(forward), forward.reverse)
        self._carried.pop(carried, None)
        with suppress(SshError):
            await self._master.close_forward(carried[0], reverse=carried[1])
        if forward.host.socket and not forward.reverse:
            _remove(forward.host.socket)
        self._keep(tuple(self._carried))

    async def close(self) -> None:
        """End the connection and everything in it."""
        await self.stop_watching()
        for specification_, reverse in self._carried:
            if not reverse and specification_.startswith("/"):
                _remove(specification_.partition(":")[0])
        self._carried.clear()
        await self._master.stop()

    async def detach(self) -> None:
        """Leave the connection to another agent."""
        await self.stop_watching()
        self._master.detach()

    async def _log_in(self) -> None:
        port = self.target.port
        if not await has_banner(port):
            raise Unmet(f"no ssh server answers at 127.0.0.1:{port}")
        try:
            await self._master.start()
        except SshError as error:
            raise Unmet(str(error)) from error

    def _watch(self) -> None:
        self._keeping = asyncio.create_task(self._keep_connected(), name="ssh")

    async def stop_watching(self) -> None:
        """Do not make a lost connection again."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
            self._keeping = None

    async def _keep_connected(self) -> None:
        while True:
            await self._master.wait_ended()
            self._warn(f"the ssh connection to the guest was lost: {self._master.last_line()}")
            await self._reconnect()

    async def _reconnect(self) -> None:
        while True:
            await asyncio.sleep(_RECONNECT_S)
            with suppress(Unmet):
                await self._log_in()
                break
        for specification_, reverse in self._carried:
            try:
                await self._master.open_forward(specification_, reverse=reverse)
            except SshError as error:
                self._warn(f"{specification_} is not forwarded any more: {error}")


def specification(forward: Forward) -> str:
    """A forward in the words of `ssh -L` and `ssh -R`."""
    listen, reach = forward.host, forward.guest
    if forward.reverse:
        listen, reach = reach, listen
    return f"{_address(listen)}:{_address(reach, is_reached=True)}"


def _address(endpoint: Endpoint, *, is_reached: bool = False) -> str:
    if endpoint.socket:
        return endpoint.socket
    ip = _LOOPBACK.get(endpoint.ip, endpoint.ip) if is_reached else endpoint.ip
    return str(Endpoint(ip=ip, port=endpoint.port))


def _check_free(endpoint: Endpoint) -> None:
    """Raise ForwardError if ssh could not listen there."""
    try:
        if endpoint.socket:
            path = Path(endpoint.socket)
            check_length(path)
            clear_stale(path)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            listen_inet(endpoint).close()
    except SocketInUse as error:
        raise ForwardError(str(error), reason=ADDRESS_IN_USE) from error
    except HostError as error:
        raise ForwardError(str(error)) from error
    except OSError as error:
        raise ForwardError.from_os(str(endpoint), error) from error


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)
