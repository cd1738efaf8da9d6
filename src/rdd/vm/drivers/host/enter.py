# SPDX-License-Identifier: Apache-2.0
"""Makes the namespaces of an engine and becomes their first process.

Run as a program of its own (`python -I -S enter.py NAME STAGING`), which imports nothing of
ours. It leaves the network, mount, process and IPC namespaces
of whoever started it, and forks. The parent tells the child's process id and ends. The child
is process 1 of the new namespaces: when it ends, the system ends every other process in them,
and with the last process go the mounts and the network. So nothing can be left behind.

The child sees the whole file system of this machine, and what is mounted on it later, but
what it mounts itself stays with it. It gets

- a `/run` of its own, in which everything of the machine's `/run` is found except what belongs
  to a container engine: the target of sockets and pid files are the usual ones, short, and
  never those of an engine of the system;
- its own `/proc`;
- an `/etc/resolv.conf` that names the relay of the host agent.

Meanwhile the host agent plugs the network in from outside and then sends a plan, one line of
JSON: how the network is configured, and the services. With them it goes on as `namespace_init.py`.
"""

import contextlib
import ctypes
import json
import marshal
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x8000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_MOVE, MS_REC, MS_SLAVE = (
    2,
    4,
    8,
    4096,
    8192,
    16384,
    1 << 19,
)

# Entries of /run that belong to engines. `netns` pins namespaces that others want to delete.
ENGINE_ENTRIES = (
    "docker",
    "containerd",
    "runc",
    "buildkit",
    "k3s",
    "flannel",
    "cni",
    "xtables",
    "netns",
    "rdd",
)
SERVICES = "/run/rdd/services"

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Make the namespaces; go on as their first process."""
    name, staging = sys.argv[1:]
    try:
        _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET), "unshare")
        child = os.fork()
        if child:
            tell({"pid": child})
            os._exit(0)
        become_first(name, staging)
    except Exception as error:
        tell({"error": f"{type(error).__name__}: {error}"})
        os._exit(1)


def become_first(name: str, staging: str) -> NoReturn:
    """What the child does: set the stage, and go on as the one who holds it."""
    os.setsid()
    os.chdir("/")
    mount(None, "/", None, MS_REC | MS_SLAVE)
    make_private_run(staging)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    Path("/run/rdd").mkdir(0o700)
    line = sys.stdin.buffer.readline()
    if not line:
        raise RuntimeError("the host agent is gone")
    plan = json.loads(line)
    write("/run/rdd/resolv.conf", plan["resolv_conf"].encode(), 0o644)
    with contextlib.suppress(OSError):  # without one there is nothing to hide
        mount("/run/rdd/resolv.conf", os.path.realpath("/etc/resolv.conf"), None, MS_BIND)
    write(SERVICES, marshal.dumps((plan["services"], plan["ended"])), 0o600)
    configure(plan["ip"])
    # Process 1 does not get signals it has no handler for; one that is blocked waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    tell({"ready": True})
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    hold = str(Path(__file__).with_name("namespace_init.py"))
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", hold, SERVICES, name])


def make_private_run(staging: str) -> None:
    """Put a new file system at /run with what the old one has, but for engines."""
    mount("tmpfs", staging, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for entry in os.scandir("/run"):
        if entry.name.startswith(ENGINE_ENTRIES):
            continue
        target = f"{staging}/{entry.name}"
        with contextlib.suppress(OSError):  # some file systems are closed even to root
            if entry.is_symlink():
                Path(target).symlink_to(Path(entry.path).readlink())
            elif entry.is_dir(follow_symlinks=False):
                Path(target).mkdir()
                mount(entry.path, target, None, MS_BIND | MS_REC)
            else:
                write(target, b"", 0o600)
                mount(entry.path, target, None, MS_BIND)
    mount(staging, "/run", None, MS_MOVE)


def configure(commands: str) -> None:
    """Configure the network with `ip -batch`."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input=commands, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"ip: {done.stderr.strip()}")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """mount(2). Raises OSError."""
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def write(path: str, content: bytes, mode: int) -> None:
    """Write a small file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.write(descriptor, content)
    os.close(descriptor)


def tell(message: dict[str, Any]) -> None:
    """Tell the host agent something."""
    os.write(1, json.dumps(message).encode() + b"\n")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
