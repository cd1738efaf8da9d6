# SPDX-License-Identifier: Apache-2.0
"""The ssh connection to a guest, with its forwards and commands.

One control master carries all forwards and commands. When it is lost (a frozen guest, a network
reset), it is reconnected and its forwards are opened again. The forwards are recorded on disk:
the next agent adopts a live master and closes the forwards of its predecessor.

ssh does not report why it cannot listen on an address, so the address is checked first.
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
_RESUME_POLL_S = 0.05
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}

ForwardSpec = tuple[str, bool]
"""The argument of `ssh -L`, or of `ssh -R` if True."""


class GuestConnection:
    def __init__(
        self,
        target: SshTarget,
        *,
        log: Path,
        record: Callable[[tuple[ForwardSpec, ...]], None],
        warn: Callable[[str], None],
    ) -> None:
        self.target = target
        self._master = ControlMaster(target, log=log)
        self._record = record
        self._warn = warn
        self._forwards: dict[ForwardSpec, None] = {}
        self._reconnector: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Log in once the guest's sshd responds. Raises Unmet."""
        if self._reconnector is not None:
            return
        await self._log_in()
        self._start_reconnector()

    async def adopt(self, forwards: tuple[ForwardSpec, ...]) -> None:
        """Adopt the master of a former agent, and close that agent's forwards."""
        if await self._master.adopt():
            for specification, reverse in forwards:
                await self._master.close_forward(specification, reverse=reverse)
            self._start_reconnector()
        self._record(())

    async def run(self, line: str, *, script: str = "", timeout_s: float = 30) -> CommandResult:
        """Run a shell line in the guest. Raises SshError, also when the guest is unreachable."""
        answer = await run(self.target, line, script=script, timeout_s=timeout_s)
        if answer.status == 255:
            raise SshError(answer.errors.strip() or "the connection to the guest is lost")
        return answer

    async def open_forward(self, forward: Forward) -> None:
        """Open a forward. Raises ForwardError."""
        if forward.protocol != "tcp":
            raise ForwardError(
                f"{forward.protocol} is not forwarded by the qemu driver", permanent=True
            )
        if not forward.reverse:
            check_free(forward.host)
        spec = (specification(forward), forward.reverse)
        # Recorded first: the successor of an agent that is killed meanwhile closes it, too.
        self._forwards[spec] = None
        self._record(tuple(self._forwards))
        try:
            await self._master.open_forward(spec[0], reverse=spec[1])
        except SshError as error:
            self._forwards.pop(spec, None)
            self._record(tuple(self._forwards))
            raise ForwardError(f"{forward.host}: {error}") from error

    async def close_forward(self, forward: Forward) -> None:
        """Close a forward for new connections."""
        spec = (specification(forward), forward.reverse)
        self._forwards.pop(spec, None)
        with suppress(SshError):
            await self._master.close_forward(spec[0], reverse=spec[1])
        if forward.host.socket and not forward.reverse:
            _remove(forward.host.socket)
        self._record(tuple(self._forwards))

    async def suspend(self) -> None:
        """Close the connection; `resume` opens it and its forwards again."""
        await self.stop_reconnecting()
        await self._master.stop()

    async def resume(self, *, timeout_s: float) -> None:
        """Connect to a guest that runs again. Raises SshError."""
        last = ""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        await self._log_in()
                        break
                    except Unmet as unmet:
                        last = str(unmet)
                    await asyncio.sleep(_RESUME_POLL_S)
        except TimeoutError:
            raise SshError(f"no connection within {timeout_s:g} s: {last}") from None
        await self._open_forwards()
        self._record(tuple(self._forwards))
        self._start_reconnector()

    async def close(self) -> None:
        """Close the connection and all forwards."""
        await self.stop_reconnecting()
        for specification_, reverse in self._forwards:
            if not reverse and specification_.startswith("/"):
                _remove(specification_.partition(":")[0])
        self._forwards.clear()
        await self._master.stop()

    async def detach(self) -> None:
        """Leave the connection open for another agent."""
        await self.stop_reconnecting()
        self._master.detach()

    async def _log_in(self) -> None:
        port = self.target.port
        if not await has_banner(port):
            raise Unmet(f"no ssh server responds at 127.0.0.1:{port}")
        try:
            await self._master.start()
        except SshError as error:
            raise Unmet(str(error)) from error

    def _start_reconnector(self) -> None:
        self._reconnector = asyncio.create_task(self._reconnect_forever(), name="ssh")

    async def stop_reconnecting(self) -> None:
        """Stop reconnecting a lost connection."""
        if self._reconnector is not None:
            self._reconnector.cancel()
            await asyncio.gather(self._reconnector, return_exceptions=True)
            self._reconnector = None

    async def _reconnect_forever(self) -> None:
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
        await self._open_forwards()

    async def _open_forwards(self) -> None:
        for specification_, reverse in self._forwards:
            try:
                await self._master.open_forward(specification_, reverse=reverse)
            except SshError as error:
                self._warn(f"{specification_} is no longer forwarded: {error}")


def specification(forward: Forward) -> str:
    """Return a forward in the syntax of `ssh -L` and `ssh -R`."""
    listen, target = forward.host, forward.guest
    if forward.reverse:
        listen, target = target, listen
    return f"{_address(listen)}:{_address(target, is_target=True)}"


def _address(endpoint: Endpoint, *, is_target: bool = False) -> str:
    if endpoint.socket:
        return endpoint.socket
    ip = _LOOPBACK.get(endpoint.ip, endpoint.ip) if is_target else endpoint.ip
    return str(Endpoint(ip=ip, port=endpoint.port))


def check_free(endpoint: Endpoint) -> None:
    """Raise ForwardError if ssh cannot listen on an endpoint."""
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
