# SPDX-License-Identifier: Apache-2.0
"""OpenSSH to a guest: one control master per machine, with commands and forwards through it.

The options are those of Lima, so that rdd and Lima can use the same directory. All connections
go through one master (`ssh.sock`), which one host agent starts and the next one adopts: a
shell needs no key exchange, and a forward is a message to the master (`ssh -O forward`). The
user's ssh configuration is never read.
"""

import asyncio
import os
import re
import socket
import struct
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rdd.host import commands
from rdd.host.commands import CommandResult
from rdd.host.errors import HostError
from rdd.host.exits import wait_ended
from rdd.host.files import read_text, remove
from rdd.host.locks import FileLock
from rdd.host.processes import Identity, identity
from rdd.host.spawn import spawn_into_log

CONFIG_DIR = "_config"  # in LIMA_HOME: the keys of all machines
KEY = "user"
LOG = "ssh.log"  # output of the control master
_LOGIN_TIMEOUT_S = 15.0  # an emulated guest may take seconds for one key exchange
_POLL_S = 0.05
_KEYGEN_TIMEOUT_S = 30


class SshError(HostError):
    """ssh failed; the text is the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """Address and credentials of one guest."""

    port: int
    user: str
    identity: Path
    control: Path
    address: str = "127.0.0.1"
    forward_agent: bool = False

    def options(self) -> dict[str, str]:
        return {
            "IdentityFile": f'"{self.identity}"',
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "NoHostAuthenticationForLocalhost": "yes",
            "PreferredAuthentications": "publickey",
            "GSSAPIAuthentication": "no",
            "Compression": "no",
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "Ciphers": '"^aes128-gcm@openssh.com,aes256-gcm@openssh.com"',
            "User": self.user,
            "ForwardAgent": "yes" if self.forward_agent else "no",
            "ControlMaster": "auto",
            "ControlPath": f'"{self.control}"',
            "ControlPersist": "yes",
            "StreamLocalBindUnlink": "yes",
            "LogLevel": "ERROR",
        }

    def arguments(self, **changes: str) -> list[str]:
        """Return `ssh` and its options, without the host name."""
        words = ["ssh", "-F", "/dev/null"]
        for name, value in {**self.options(), **changes}.items():
            words += ["-o", f"{name}={value}"]
        return [*words, "-p", str(self.port)]

    def command(self, remote: str = "", *, is_terminal: bool = False, **changes: str) -> list[str]:
        """Return a command that runs `remote` in the guest's shell; without it, a login shell."""
        flags = ["-t"] if is_terminal else ["-T"]
        words = [*self.arguments(**changes), *flags, self.address]
        return [*words, "--", remote] if remote else words

    def config(self, name: str) -> str:
        """Return a configuration file, for `ssh -F ssh.config lima-<name>`."""
        lines = [f"Host lima-{name}", f"  Hostname {self.address}", f"  Port {self.port}"]
        for key, value in self.options().items():
            lines.append(f"  {key} {value.strip(chr(34)) if key == 'Ciphers' else value}")
        return "\n".join(lines) + "\n"


async def run(
    target: SshTarget, remote: str, *, script: str = "", timeout_s: float = 30
) -> CommandResult:
    """Run a shell line in the guest, with `script` as its input. Raises SshError.

    An exit status of 255 is ssh's own: the guest is unreachable.
    """
    return await _finish(target.command(remote, ControlMaster="no"), script, timeout_s)


async def _finish(words: Sequence[str], text: str, timeout_s: float) -> CommandResult:
    try:
        return await commands.run(*words, text=text, timeout_s=timeout_s)
    except commands.TimedOut as error:
        raise SshError(f"no response over ssh within {timeout_s:g} s") from error
    except HostError as error:
        raise SshError(str(error)) from error


async def has_banner(port: int, *, address: str = "127.0.0.1", timeout_s: float = 1.0) -> bool:
    """Return whether an ssh server sends its banner.

    qemu accepts connections long before the guest does.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                return (await reader.read(4)) == b"SSH-"
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


class ControlMaster:
    """The control master of one guest; it has its own session and outlives its agent."""

    def __init__(self, target: SshTarget, *, log: Path) -> None:
        self.target = target
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._process: Identity | None = None

    async def start(self) -> None:
        """Log in and listen at the control socket. Raises SshError with the output of ssh."""
        await self.stop()
        words = self.target.arguments(
            ControlMaster="yes", ControlPersist="no", ServerAliveInterval="15"
        )
        self._child = child = self._spawn([*words, "-N", "-T", self.target.address])
        self._process = identity(child.pid)
        try:
            async with asyncio.timeout(_LOGIN_TIMEOUT_S):
                while not self.target.control.exists():
                    if child.poll() is not None:
                        raise SshError(self.last_line() or "ssh ended without an error message")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            await self.stop()
            raise SshError(f"no login over ssh within {_LOGIN_TIMEOUT_S:g} s") from error
        except BaseException:
            await self.stop()
            raise

    async def adopt(self) -> bool:
        """Attach to the master of a former agent; return False if there is none."""
        if not self.target.control.exists():
            return False
        answer = await self._control("check")
        match = re.search(r"pid=(\d+)", answer.errors + answer.output)
        self._process = identity(int(match[1])) if match and answer.status == 0 else None
        return self._process is not None

    async def wait_ended(self) -> None:
        """Return when the master has ended, or was never started."""
        if self._process is not None:
            await wait_ended(self._process)
        if self._child is not None:
            self._child.wait()

    def last_line(self) -> str:
        """Return the last line of the master's log."""
        lines = (read_text(self._log) or "").strip().splitlines()
        return lines[-1] if lines else ""

    async def open_forward(self, specification: str, *, reverse: bool = False) -> None:
        """Open a forward: `[address:]port:address:port` or socket paths. Raises SshError."""
        answer = await self._control("forward", "-R" if reverse else "-L", specification)
        if answer.status != 0:
            raise SshError(answer.error_summary())

    async def close_forward(self, specification: str, *, reverse: bool = False) -> None:
        """Close a forward for new connections. Idempotent."""
        await self._control("cancel", "-R" if reverse else "-L", specification)

    async def stop(self) -> None:
        """End the master and every connection through it, even if another agent started it."""
        if self.target.control.exists():
            await self._control("exit")
        child, self._child, self._process = self._child, None, None
        if child is not None:
            with suppress(ProcessLookupError):
                child.kill()
            await asyncio.to_thread(child.wait)
        self.target.control.unlink(missing_ok=True)

    def detach(self) -> None:
        """Leave the master running for another agent."""
        if self._child is not None:
            self._child.returncode = 0  # otherwise Popen warns about a running child
            self._child = None

    def _spawn(self, words: Sequence[str]) -> "subprocess.Popen[bytes]":
        try:
            remove(self._log)  # the output of an earlier master is unrelated
            return spawn_into_log(words, self._log)
        except HostError as error:
            raise SshError(str(error)) from error

    async def _control(self, request: str, *words: str) -> CommandResult:
        command = [*self.target.arguments(ControlMaster="no"), "-O", request, *words]
        return await _finish([*command, self.target.address], "", timeout_s=10)


def master_pid(control: Path) -> int:
    """Return the process that listens on a control socket, even a stopped one. Raises HostError.

    ssh itself could be asked, but a stopped one does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(control))
            peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        except OSError as error:
            raise HostError.from_os(f'connect to "{control}"', error) from error
    pid: int = struct.unpack("3i", peer)[0]
    return pid


def public_keys(home: Path, lima_home: Path, *, load_user_keys: bool) -> list[str]:
    """Return the keys that may log in: rdd's, and the user's if wanted. Raises HostError."""
    paths = [lima_home / CONFIG_DIR / f"{KEY}.pub"]
    if load_user_keys:
        paths += sorted((home / ".ssh").glob("*.pub"))
    texts = [(read_text(path) or "").strip() for path in paths]
    return [text for text in texts if text and "\n" not in text]


async def ensure_key(lima_home: Path) -> Path:
    """Return the private key of all machines; create it if missing. Raises HostError."""
    return await asyncio.to_thread(_ensure_key, lima_home)


def _ensure_key(lima_home: Path) -> Path:
    directory = lima_home / CONFIG_DIR
    key, public = directory / KEY, directory / f"{KEY}.pub"
    if key.exists() and public.exists():
        return key
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError.from_os(f'create directory "{directory}"', error) from error
    lock = _wait_for_lock(directory / "user.lock")
    try:
        if key.exists():
            _derive(key, public)
        else:
            temporary = directory / f"{KEY}.{os.getpid()}.tmp"
            _keygen("-q", "-t", "ed25519", "-N", "", "-C", "lima", "-f", str(temporary))
            Path(f"{temporary}.pub").replace(public)
            temporary.replace(key)  # last: a reader that sees the key sees both
    finally:
        lock.release()
    return key


def _wait_for_lock(path: Path) -> FileLock:
    import time

    while (lock := FileLock.try_acquire(path)) is None:
        time.sleep(_POLL_S)
    return lock


def _derive(key: Path, public: Path) -> None:
    """Create the missing public half of a key."""
    if not public.exists():
        public.write_text(_keygen("-y", "-f", str(key)))


def _keygen(*words: str) -> str:
    return commands.run_blocking(
        "ssh-keygen",
        *words,
        timeout_s=_KEYGEN_TIMEOUT_S,
        remedy="install the OpenSSH client",
    ).checked()
