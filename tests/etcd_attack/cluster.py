# SPDX-License-Identifier: Apache-2.0
"""A cluster of three members, each in a network namespace and on a file system of its own.

The namespaces hang on a bridge in the namespace of this process, which must be a private one (the
tests start it with unshare(1), as it has a private mount namespace, too). A partition is a rule of
the packet filter in the namespace of a member, so it can be one-way. The file systems are small
ext4 images: they can be filled, and frozen, which stalls every write and fsync of the member.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.etcd import EtcdServer, leader_of
from tests.programs import run_program, start_program

CLIENT_PORT, PEER_PORT = 2379, 2380
_DISK_MB = 320
"""etcd reserves two files of 64 MB for its log."""
_OPTIONS = (
    "--heartbeat-interval=50",
    "--election-timeout=500",
    "--snapshot-count=1000",
    "--quota-backend-bytes=33554432",
)


def run(*command: str) -> None:
    """Run a command as it must succeed."""
    run_program(command, check=True)


class Member(EtcdServer):
    """A member with its faults."""

    def __init__(self, etcd: Path, base: Path, number: int, stack: contextlib.ExitStack) -> None:
        self.address = f"10.77.0.{number + 1}"
        self.disk = base / f"disk{number}"
        self.disk.mkdir(parents=True)
        image = base / f"disk{number}.img"
        run("truncate", f"--size={_DISK_MB}M", str(image))
        run("mkfs.ext4", "-q", "-O", "^has_journal", str(image))
        run("mount", "-o", "loop", str(image), str(self.disk))
        stack.callback(run_program, ["umount", "--lazy", str(self.disk)])
        holder = stack.enter_context(start_program(["unshare", "--net", "sleep", "infinity"]))
        # The namespace exists when it differs from ours.
        ours, path = os.readlink("/proc/self/ns/net"), f"/proc/{holder.pid}/ns/net"
        while os.readlink(path) == ours:
            pass
        self._enter = ["nsenter", f"--net={path}"]
        link, far = f"m{number}", f"m{number}p"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", far)
        run("ip", "link", "set", link, "master", "br0", "up")
        run("ip", "link", "set", far, "netns", str(holder.pid))
        run(*self._enter, "ip", "address", "add", f"{self.address}/24", "dev", far)
        for name in ("lo", far):
            run(*self._enter, "ip", "link", "set", name, "up")
        super().__init__(
            etcd,
            self.disk,
            *_OPTIONS,
            name=f"m{number}",
            ports=(CLIENT_PORT, PEER_PORT),
            cluster=",".join(f"m{n}=http://10.77.0.{n + 1}:{PEER_PORT}" for n in range(3)),
            prefix=self._enter,
            host=self.address,
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the member."""
        assert self.program is not None
        os.kill(self.program.pid, number)

    def cut_off(self, other: str, *, incoming: bool = True, outgoing: bool = True) -> None:
        """Drop packets from, or to, another address."""
        if incoming:
            run(*self._enter, "iptables", "-A", "INPUT", "-s", other, "-j", "DROP")
        if outgoing:
            run(*self._enter, "iptables", "-A", "OUTPUT", "-d", other, "-j", "DROP")

    def reconnect(self) -> None:
        """Remove all rules."""
        run(*self._enter, "iptables", "-F")

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Leave no block free."""
        ballast = self.disk / "ballast"
        free = os.statvfs(self.disk)
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - (1 << 20))
            file.seek(0, os.SEEK_END)
            while True:
                file.write(bytes(1 << 12))
        try:
            yield
        finally:
            ballast.unlink()

    @contextlib.contextmanager
    def stalled_disk(self) -> Iterator[None]:
        """Let every write and fsync wait."""
        run("fsfreeze", "--freeze", str(self.disk))
        try:
            yield
        finally:
            run("fsfreeze", "--unfreeze", str(self.disk))


class Cluster:
    """Three members."""

    def __init__(self, etcd: Path, base: Path, stack: contextlib.ExitStack) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "address", "add", "10.77.0.254/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        self.members = [Member(etcd, base, number, stack) for number in range(3)]
        for member in self.members:
            stack.callback(member.stop)
            member.start(wait=False)

    def leader(self) -> Member:
        """Return the leader."""
        found = leader_of(self.members)
        assert isinstance(found, Member)
        return found

    def others(self, member: Member) -> list[Member]:
        """Return the other members."""
        return [other for other in self.members if other is not member]
