# SPDX-License-Identifier: Apache-2.0
"""Connections of a guest's ssh process that no relay observes, found in the tables of the kernel.

ssh listens on the forwarded addresses itself until idle detection is switched on, and a shell is a
client of its control socket. What these clients send is unknown, so they keep the guest awake.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from rdd.vm.drivers.protocol import Endpoint
from rdd.vm.drivers.qemu.listeners import LOOP
from rdd.vm.ssh import master_pid

_CONNECTED_UNIX, _ESTABLISHED = "03", "01"


def unobserved(control: Path, hosts: Collection[Endpoint]) -> list[str]:
    """Return what is open beside the relays of `hosts`, as texts. Raises HostError."""
    master = master_pid(control)
    inodes = _sockets_of(master)
    paths = {host.socket for host in hosts if host.socket}
    ports = {host.port for host in hosts if host.port}
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
    if shells := _shells(control, master):
        found.append(f"a shell is open in the guest (process {shells[0]})")
    return found


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
