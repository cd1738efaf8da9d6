# SPDX-License-Identifier: Apache-2.0
"""Mounts of host directories in the guest: virtiofs, 9p, or reverse sshfs.

virtiofs is the fastest. Its daemon must run as root (it acts as the user that the guest
requests), so it is the default for root only. `reverse-sshfs` works for every user: an sftp
server on this host is connected through an ssh session to sshfs in the guest. 9p is available
for templates that select it. All are served by processes beside the emulator and independent of
the agent, so an agent can be replaced while mounts are in use.
"""

import asyncio
import os
import shlex
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.processes import Identity, identity
from rdd.host.spawn import popen, spawn_into_log
from rdd.vm.cidata import Share
from rdd.vm.drivers.protocol import Requirement, RequirementPhase, Unmet
from rdd.vm.drivers.qemu.arguments import SharedDirectory
from rdd.vm.drivers.qemu.files import tail
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.drivers.qemu.programs import find
from rdd.vm.ssh import SshError
from rdd.vm.template.model import Mount, Template

VIRTIOFS = "virtiofs"
NINE_P = "9p"
SSHFS = "reverse-sshfs"
_SOCKET_S = 5.0
_POLL_S = 0.02
_SFTP_SERVERS = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
)


def kind_of(template: Template, environment: Mapping[str, str]) -> str:
    """Return the mount type of a machine. Raises HostError if it is not possible."""
    kind = template.mount_type
    if not kind:
        has_virtiofs = os.geteuid() == 0 and find("virtiofsd", environment)
        return VIRTIOFS if has_virtiofs else SSHFS
    if kind == VIRTIOFS:
        if find("virtiofsd", environment) is None:
            raise HostError("mountType virtiofs needs virtiofsd, which is not installed")
        if os.geteuid() != 0:
            raise HostError(f"mountType virtiofs needs root here; use mountType {SSHFS}")
    if kind not in (VIRTIOFS, NINE_P, SSHFS):
        raise HostError(f'mountType "{kind}" is not supported by the qemu driver')
    return kind


def offered(mounts: Sequence[Mount], kind: str) -> tuple[SharedDirectory, ...]:
    """Return the directories that the emulator shares."""
    if kind == SSHFS:
        return ()
    return tuple(
        SharedDirectory(
            kind,
            f"mount{number}",
            f"virtiofs-{number}.sock" if kind == VIRTIOFS else mount.location,
            mount.writable,
            mount.nine_p.security_model,
        )
        for number, mount in enumerate(mounts)
    )


def mounted_by_guest(mounts: Sequence[Mount], kind: str) -> tuple[Share, ...]:
    """Return the mounts of the guest at boot."""
    if kind == SSHFS:
        return ()
    return tuple(
        Share(kind, f"mount{number}", mount.mount_point, _options(mount, kind))
        for number, mount in enumerate(mounts)
    )


def _options(mount: Mount, kind: str) -> str:
    options = ["rw" if mount.writable else "ro"]
    if kind == NINE_P:
        nine_p = mount.nine_p
        options += ["trans=virtio", f"version={nine_p.protocol_version}", f"msize={nine_p.msize}"]
        options += [f"cache={nine_p.cache or ('mmap' if mount.writable else 'fscache')}"]
    return ",".join(options)


def make_locations(mounts: Sequence[Mount]) -> None:
    """Create the missing directories of mounts. Raises HostError."""
    for mount in mounts:
        try:
            Path(mount.location).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError.from_os(f'create the mount location "{mount.location}"', error) from (
                error
            )


async def start_virtiofs(
    directory: Path, mounts: Sequence[Mount], environment: Mapping[str, str]
) -> tuple[Identity, ...]:
    """Start a virtiofsd for each mount; it ends with the emulator. Raises HostError."""
    program = find("virtiofsd", environment)
    if program is None:
        raise HostError("virtiofsd is not installed")
    found = []
    for number, mount in enumerate(mounts):
        name = f"virtiofs-{number}.sock"
        (directory / name).unlink(missing_ok=True)
        found.append(await _start_virtiofsd(program, directory, name, mount.location))
    return tuple(found)


async def _start_virtiofsd(program: Path, directory: Path, name: str, location: str) -> Identity:
    log = directory / "virtiofsd.log"
    process = spawn_into_log(_virtiofsd(program, name, location), log)
    who = identity(process.pid)
    try:
        async with asyncio.timeout(_SOCKET_S):
            while not (directory / name).exists():
                if process.poll() is not None:
                    raise HostError(f'virtiofsd for "{location}" ended: {tail(log)}')
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        process.kill()
        raise HostError(f'virtiofsd for "{location}" does not listen: {tail(log)}') from None
    if who is None:
        raise HostError(f'virtiofsd for "{location}" ended: {tail(log)}')
    process.returncode = 0  # detached: it ends with the emulator, not with this process
    return who


def _virtiofsd(program: Path, name: str, location: str) -> list[str]:
    if program.parent.name == "qemu":  # the C implementation of qemu up to 7.2
        options = f"source={location.replace(',', chr(92) + ',')},sandbox=chroot,cache=auto"
        return [str(program), f"--socket-path={name}", "-o", options]
    return [
        *(str(program), f"--socket-path={name}", "--shared-dir", location),
        *("--sandbox", "chroot", "--cache", "auto"),
    ]


def _sftp_server() -> str | None:
    return next((path for path in _SFTP_SERVERS if Path(path).exists()), None)


class SshfsMounts:
    def __init__(
        self,
        connection: GuestConnection,
        *,
        log: Path,
        helper: Callable[[Identity], None],
        degrade: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._log = log
        self._helper = helper
        self._degrade = degrade

    def requirements(self, mounts: Sequence[Mount]) -> list[Requirement]:
        """Return one requirement per mount; a failing mount degrades the machine."""

        def requirement(mount: Mount) -> Requirement:
            async def check() -> None:
                await self.mount(mount)

            return Requirement(
                RequirementPhase.OPTIONAL,
                f"mount of {mount.location}",
                check,
                hint="see sshfs.log in the machine's directory",
                timeout_s=60,
            )

        return [requirement(mount) for mount in mounts]

    async def mount(self, mount: Mount) -> None:
        """Mount a directory unless it is mounted. A permanent failure is reported, not retried."""
        if await self._is_mounted(mount):
            return
        server = _sftp_server()
        problem = "this host has no sftp-server" if server is None else ""
        if server is None or not await self._has_sshfs():
            problem = problem or "the guest has no sshfs"
            self._degrade(f"{mount.location} is not mounted: {problem}")
            return
        point = shlex.quote(mount.mount_point)
        options = ["allow_other"]
        if not mount.writable:
            options.append("ro")
        if mount.sshfs.follow_symlinks:
            options.append("follow_symlinks")
        if not mount.sshfs.cache:
            options.append("dir_cache=no")
        source = shlex.quote(f":{mount.location}")
        line = (
            f"sudo -n mkdir -p {point} && "
            f"mode=passive; sshfs -h 2>&1 | grep -q passive || mode=slave; "
            f"exec sudo -n sshfs -f -o $mode,{','.join(options)} {source} {point}"
        )
        words = [server, "-e"] if mount.writable else [server, "-e", "-R"]
        self._connect(words, self._connection.target.command(line, ControlMaster="no"))
        for _ in range(20):
            await asyncio.sleep(0.5)
            if await self._is_mounted(mount):
                return
        raise Unmet(f"sshfs in the guest did not mount it: {tail(self._log)}")

    async def _has_sshfs(self) -> bool:
        try:
            return (await self._connection.run("command -v sshfs")).status == 0
        except SshError as error:
            raise Unmet(str(error)) from error

    async def _is_mounted(self, mount: Mount) -> bool:
        point = shlex.quote(f" {mount.mount_point} ")
        try:
            answer = await self._connection.run(
                f"grep -qF {point} /proc/mounts && timeout 5 ls {shlex.quote(mount.mount_point)}"
            )
        except SshError as error:
            raise Unmet(str(error)) from error
        if answer.status not in (0, 1):  # a stale mount of an earlier agent
            with suppress(SshError):
                await self._connection.run(f"sudo -n umount -l {shlex.quote(mount.mount_point)}")
        return answer.status == 0

    def _connect(self, server: Sequence[str], client: Sequence[str]) -> None:
        """Start both programs, connected through a socket pair as input and output."""
        here, there = socket.socketpair()
        with here, there, self._log.open("ab") as log:
            for words, end in ((server, here), (client, there)):
                process = popen(
                    words,
                    stdin=end.fileno(),
                    stdout=end.fileno(),
                    stderr=log,
                    start_new_session=True,
                )
                if (who := identity(process.pid)) is not None:
                    self._helper(who)
                process.returncode = 0  # detached: it ends with the guest
