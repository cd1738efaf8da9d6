# SPDX-License-Identifier: Apache-2.0
"""Creates the namespaces of an engine and becomes their first process.

A program of its own (`python -I -S enter.py NAME STAGING`) that imports nothing of rdd. It
unshares the network, mount, process and IPC namespaces and forks. The parent reports the pid
of the child and exits. The child is process 1 of the new namespaces: when it ends, the kernel
kills every other process in them, and the mounts and the network disappear with the last
process. So nothing can be left behind.

The child has the whole file system of this host, with later mounts; its own mounts are not
visible outside. It gets

- a private `/run` with all entries of the host's `/run` except those of container engines:
  sockets and pid files have their usual, short paths, and never those of a system engine;
- its own `/proc`;
- an `/etc/resolv.conf` with the DNS relay of the host agent;
- a cgroup namespace whose root is the control group of the machine.

Meanwhile the host agent moves the veth into the namespace and then sends a plan, one line of
JSON: the configuration of the network, and the services. The process then executes
`namespace_init.py` with them.
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
CLONE_NEWCGROUP = 0x2000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_MOVE, MS_REC, MS_SLAVE = (
    2,
    4,
    8,
    4096,
    8192,
    16384,
    1 << 19,
)

# Entries of /run that belong to engines. `netns` would pin namespaces that others delete.
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
CGROUPS = "/sys/fs/cgroup"
SERVICES_GROUP = "engine"

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Create the namespaces and continue as their first process."""
    name, staging = sys.argv[1:]
    try:
        _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET), "unshare")
        child = os.fork()
        if child:
            report({"pid": child})
            os._exit(0)
        become_first(name, staging)
    except Exception as error:
        report({"error": f"{type(error).__name__}: {error}"})
        os._exit(1)


def become_first(name: str, staging: str) -> NoReturn:
    """Set up mounts and network in the child, then execute `namespace_init.py`."""
    os.setsid()
    os.chdir("/")
    mount(None, "/", None, MS_REC | MS_SLAVE)
    make_private_run(staging)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    Path("/run/rdd").mkdir(0o700)
    line = sys.stdin.buffer.readline()
    if not line:
        raise RuntimeError("the host agent has ended")
    plan = json.loads(line)
    write("/run/rdd/resolv.conf", plan["resolv_conf"].encode(), 0o644)
    with contextlib.suppress(OSError):  # without one there is nothing to cover
        mount("/run/rdd/resolv.conf", os.path.realpath("/etc/resolv.conf"), None, MS_BIND)
    write(SERVICES, marshal.dumps((plan["services"], plan["ended"])), 0o600)
    configure(plan["ip"])
    enter_cgroups(plan["cgroups"])
    # The kernel drops signals to process 1 without a handler; a blocked signal stays pending.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    report({"ready": True})
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    init = str(Path(__file__).with_name("namespace_init.py"))
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", init, SERVICES, name])


def make_private_run(staging: str) -> None:
    """Mount a new file system at /run with the entries of the old one, except engines."""
    mount("tmpfs", staging, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for entry in os.scandir("/run"):
        if entry.name.startswith(ENGINE_ENTRIES):
            continue
        target = f"{staging}/{entry.name}"
        with contextlib.suppress(OSError):  # some file systems are inaccessible even to root
            if entry.is_symlink():
                Path(target).symlink_to(Path(entry.path).readlink())
            elif entry.is_dir(follow_symlinks=False):
                Path(target).mkdir()
                mount(entry.path, target, None, MS_BIND | MS_REC)
            else:
                write(target, b"", 0o600)
                mount(entry.path, target, None, MS_BIND)
    mount(staging, "/run", None, MS_MOVE)


def enter_cgroups(mounts: list[tuple[str, str, str]]) -> None:
    """Make the present control group the root, and mount the hierarchies again from there.

    With version 2 a group has either processes or groups with controllers, so this process and
    the services move to a group of their own.
    """
    if not mounts:
        return
    _check(_libc.unshare(CLONE_NEWCGROUP), "unshare")
    links = {
        entry.path: os.readlink(entry.path)  # noqa: PTH115
        for entry in os.scandir(CGROUPS)
        if entry.is_symlink()  # cpu -> cpu,cpuacct
    }
    # Also below a single hierarchy: the kernel refuses a file system on top of itself.
    mount("tmpfs", CGROUPS, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755")
    for target, kind, options in mounts:
        if target != CGROUPS:
            Path(target).mkdir(0o755)
        mount(kind, target, kind, MS_NOSUID | MS_NODEV | MS_NOEXEC, options)
        if kind == "cgroup2":
            Path(target, SERVICES_GROUP).mkdir()
            Path(target, SERVICES_GROUP, "cgroup.procs").write_text("0")
    for path, target in links.items():
        with contextlib.suppress(FileExistsError):
            Path(path).symlink_to(target)


def configure(commands: str) -> None:
    """Configure the network with `ip -batch`."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input=commands, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"ip: {done.stderr.strip()}")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Call mount(2). Raises OSError."""
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def write(path: str, content: bytes, mode: int) -> None:
    """Write a small file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.write(descriptor, content)
    os.close(descriptor)


def report(message: dict[str, Any]) -> None:
    """Send a message to the host agent."""
    os.write(1, json.dumps(message).encode() + b"\n")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
