# SPDX-License-Identifier: Apache-2.0
"""Control groups: one group that contains everything a machine runs, and its limits.

Version 2 is used where it has the controllers `cpu` and `memory`; otherwise version 1, whose
controllers are separate hierarchies. A group exists below the same name in all hierarchies, so
that a process in it can have a cgroup namespace: programs inside (dockerd, containerd, k3s)
then create their own groups below this one, whatever names they choose, and no limit can be
bypassed. The same group can be frozen: nothing in it runs until it is thawed. Version 1 has a
controller for that; a group of version 2 always can, also on a host that has both versions.

Only root can create groups anywhere. For other users the systemd instance of the user is the
owner of a delegated subtree (version 2 only); it starts a program in a scope with limits.

`Layout.read` never changes anything and reads a few small files; a layout without a mode has
the reason, which is shown to users.
"""

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rdd.host.errors import HostError

Mode = Literal["", "v1", "v2", "v2-systemd"]

PERIOD_US: Final = 100_000
"""The period of CPU quotas, the default of the kernel."""
ROOT: Final = Path("/sys/fs/cgroup")
NEEDED: Final = ("cpu", "memory")
_MOUNTS = Path("/proc/self/mountinfo")
_SWAPS = Path("/proc/swaps")
_USERS = "user.slice/user-{uid}.slice/user@{uid}.service"
_ENTER_CHILD = (
    f'group={ROOT}$(sed -n s/^0:://p /proc/self/cgroup)/engine; mkdir "$group"; '
    'echo 0 >"$group/cgroup.procs"; exec "$@"'
)
FREEZE_S: Final = 2.0
"""How long a group may take to freeze."""
_is_container = re.compile(r"[0-9a-f]{64}").search
_NOT_CONTROLLERS = frozenset(("rw", "ro", "xattr", "clone_children"))


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted hierarchy of control groups."""

    path: Path
    is_v2: bool
    controllers: tuple[str, ...]
    """Of version 1 also its name, `name=systemd`: together they are the mount options."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a group; 0 means none."""

    cpus: int = 0
    memory_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.cpus or self.memory_bytes)


@dataclass(frozen=True, slots=True)
class Layout:
    """The hierarchies of this host, and how limits can be set with them."""

    hierarchies: tuple[Hierarchy, ...]
    mode: Mode
    reason: str = ""
    """Why limits cannot be set; empty with a mode."""

    @classmethod
    def read(cls, environment: Mapping[str, str], *, uid: int | None = None) -> "Layout":
        """Return the layout for a user, by default the one of this process."""
        uid = os.geteuid() if uid is None else uid
        try:
            found = tuple(parse_mounts(_MOUNTS.read_text()))
        except OSError as error:
            return cls((), "", f"{_MOUNTS} cannot be read: {error.strerror}")
        if uid == 0:
            return _for_root(found)
        return _for_user(found, uid, environment)

    def controller(self, name: str) -> Hierarchy:
        """Return the hierarchy of a controller, that of version 2 in its mode."""
        is_v2 = self.mode != "v1"
        return next(
            found
            for found in self.hierarchies
            if found.is_v2 == is_v2 and (is_v2 or name in found.controllers)
        )


def parse_mounts(text: str) -> Iterator[Hierarchy]:
    """Yield the writable hierarchies in a mountinfo, each once."""
    seen = set()
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words, rest = before.split(" "), after.split(" ")
        if len(words) < 6 or len(rest) < 3 or rest[0] not in ("cgroup", "cgroup2"):
            continue
        device, path = words[2], Path(words[4].encode().decode("unicode_escape"))
        if device in seen or "rw" not in words[5].split(","):
            continue
        seen.add(device)
        if rest[0] == "cgroup2":
            yield Hierarchy(path, True, tuple(_words(path / "cgroup.controllers")))
        else:
            options = [word for word in rest[2].split(",") if word not in _NOT_CONTROLLERS]
            named = [word for word in options if "=" not in word or word.startswith("name=")]
            yield Hierarchy(path, False, tuple(named))


def _for_root(found: tuple[Hierarchy, ...]) -> Layout:
    if any(item.is_v2 and set(NEEDED) <= set(item.controllers) for item in found):
        return Layout(found, "v2")
    have = {name for item in found if not item.is_v2 for name in item.controllers}
    if set(NEEDED) <= have:
        return Layout(found, "v1")
    missing = " and ".join(name for name in NEEDED if name not in have)
    return Layout(found, "", f"no writable control group has the controller {missing}")


def _for_user(found: tuple[Hierarchy, ...], uid: int, environment: Mapping[str, str]) -> Layout:
    v2 = next((item for item in found if item.is_v2), None)
    delegated = v2.path / _USERS.format(uid=uid) if v2 is not None else None
    if delegated is None or not delegated.is_dir():
        return Layout(found, "", f"systemd manages no control group of the user {uid}")
    have = _words(delegated / "cgroup.controllers")
    missing = [name for name in NEEDED if name not in have]
    if missing:
        return Layout(
            found,
            "",
            f"the controller {' and '.join(missing)} is not delegated to the user {uid}; to "
            "change that: set Delegate=cpu memory pids in a drop-in of user@.service",
        )
    if shutil.which("systemd-run", path=environment.get("PATH")) is None:
        return Layout(found, "", "systemd-run is not installed")
    if not (_runtime_dir(uid, environment) / "systemd/private").exists():
        return Layout(found, "", f"the systemd instance of the user {uid} does not run")
    return Layout(found, "v2-systemd")


def _runtime_dir(uid: int, environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}")


class Group:
    """The control group of a machine, created by root. All methods raise HostError."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._layout = layout
        self._name = name.strip("/")

    def directory(self, controller: str) -> Path:
        """Return the directory of the group in the hierarchy of a controller."""
        return self._layout.controller(controller).path / self._name

    def create(self, limits: Limits) -> None:
        """Create the group in all hierarchies, with its limits."""
        for hierarchy in self._layout.hierarchies:
            directory = hierarchy.path
            for part in self._name.split("/"):
                if hierarchy.is_v2 and self._layout.mode == "v2":
                    _enable(directory, hierarchy.controllers)
                directory /= part
                _make(directory)
                if "cpuset" in hierarchy.controllers and not hierarchy.is_v2:
                    _inherit_cpuset(directory)
        if self._layout.mode == "v2":
            self._limit_v2(limits)
        else:
            self._limit_v1(limits)

    def _limit_v2(self, limits: Limits) -> None:
        directory = self.directory("cpu")
        quota = str(limits.cpus * PERIOD_US) if limits.cpus else "max"
        _write(directory / "cpu.max", f"{quota} {PERIOD_US}")
        _write(directory / "memory.max", str(limits.memory_bytes or "max"))
        swap = directory / "memory.swap.max"
        if swap.exists():  # the kernel may have no accounting of swap
            _write(swap, "0" if limits.memory_bytes else "max")

    def _limit_v1(self, limits: Limits) -> None:
        cpu, memory = self.directory("cpu"), self.directory("memory")
        _write(cpu / "cpu.cfs_period_us", str(PERIOD_US))
        _write(cpu / "cpu.cfs_quota_us", str(limits.cpus * PERIOD_US if limits.cpus else -1))
        if _words(memory / "memory.use_hierarchy") == ["0"]:  # before Linux 5.11
            _write(memory / "memory.use_hierarchy", "1")
        both = memory / "memory.memsw.limit_in_bytes"  # memory and swap
        if both.exists():
            _write(both, "-1")  # it must not be less than the limit of the memory
        _write(memory / "memory.limit_in_bytes", str(limits.memory_bytes or -1))
        if both.exists() and limits.memory_bytes:
            _write(both, str(limits.memory_bytes))

    def add(self, pid: int) -> None:
        """Move a process into the group."""
        for hierarchy in self._layout.hierarchies:
            _write(hierarchy.path / self._name / "cgroup.procs", str(pid))

    def namespace_mounts(self) -> list[tuple[str, str, str]]:
        """Return target, file system and options of the mounts in a cgroup namespace.

        Only hierarchies in the usual directory: programs look for them nowhere else.
        """
        return [
            (
                str(found.path),
                "cgroup2" if found.is_v2 else "cgroup",
                "" if found.is_v2 else _mount_options(found.controllers),
            )
            for found in self._layout.hierarchies
            if found.path.is_relative_to(ROOT)
        ]


class Freezer:
    """Stops and continues everything in a group. Blocking; all methods raise HostError."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._hierarchy = _freezing_hierarchy(layout)
        self._name = name.strip("/")

    @property
    def problem(self) -> str:
        """Why the group cannot be frozen; empty if it can."""
        if self._hierarchy is None:
            return "no writable control group can be frozen: there is neither version 2 nor freezer"
        if not self._control.exists():
            return f'"{self._control}" does not exist'
        return ""

    @property
    def _directory(self) -> Path:
        assert self._hierarchy is not None
        return self._hierarchy.path / self._name

    @property
    def _control(self) -> Path:
        assert self._hierarchy is not None
        return self._directory / ("cgroup.freeze" if self._hierarchy.is_v2 else "freezer.state")

    @property
    def is_frozen(self) -> bool:
        """Whether nothing in the group runs."""
        assert self._hierarchy is not None
        if self._hierarchy.is_v2:
            words = _words(self._directory / "cgroup.events")
            return dict(zip(words[::2], words[1::2], strict=False)).get("frozen") == "1"
        return _words(self._control) == ["FROZEN"]

    def freeze(self) -> None:
        """Freeze the group, and return when nothing in it runs."""
        if self.problem:
            raise HostError(self.problem)
        assert self._hierarchy is not None
        deadline = time.monotonic() + FREEZE_S
        _write(self._control, "1" if self._hierarchy.is_v2 else "FROZEN")
        while not self.is_frozen:
            if time.monotonic() > deadline:
                raise HostError(
                    f'"{self._directory}" is not frozen after {FREEZE_S:g} s: a process in it '
                    "waits for a device or a file server"
                )
            time.sleep(0.001)

    def thaw(self) -> None:
        """Let the group run again; a no-op if it does or has gone."""
        if self._hierarchy is not None and self._control.exists():
            _write(self._control, "0" if self._hierarchy.is_v2 else "THAWED")


def _freezing_hierarchy(layout: Layout) -> Hierarchy | None:
    """Return the hierarchy that freezes a group: that of the limits if possible."""
    version_2 = next((found for found in layout.hierarchies if found.is_v2), None)
    if layout.mode != "v1" and version_2 is not None:
        return version_2
    for found in layout.hierarchies:
        if not found.is_v2 and "freezer" in found.controllers:
            return found
    return version_2


class Cache:
    """The page cache of a group and of those below it. Blocking; all methods raise HostError."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._is_v1 = layout.mode == "v1"
        self._directory: Path | None = None
        if layout.mode in ("v1", "v2"):
            self._directory = layout.controller("memory").path / name.strip("/")

    def reclaim(self) -> int:
        """Evict what is in the cache and on disk as well; return about how much that was.

        Memory of processes stays, also on a host with swap. Version 1 cannot select the
        cache: with swap, nothing is reclaimed there.
        """
        if self._directory is None or not self._directory.exists():
            return 0
        before = self._evictable
        if self._is_v1:
            if _has_swap():
                return 0
            _write(self._directory / "memory.force_empty", "0")
        elif not self._reclaim_v2(before):
            return 0
        return max(0, before - self._evictable)

    def _reclaim_v2(self, count: int) -> bool:
        """Return whether this kernel can do it (since Linux 5.19)."""
        control = self._directory / "memory.reclaim" if self._directory is not None else None
        if control is None or not control.exists() or not count:
            return False
        for text in (f"{count} swappiness=0", str(count)):  # the former since Linux 6.9
            try:
                control.write_text(text)
                return True
            except OSError as error:
                if error.errno == errno.EAGAIN:  # a part of it is in use
                    return True
                if error.errno != errno.EINVAL:
                    raise HostError.from_os(f'write "{text}" to "{control}"', error) from error
            if _has_swap():
                return False
        return False

    @property
    def _evictable(self) -> int:
        assert self._directory is not None
        words = _words(self._directory / "memory.stat")
        found = dict(zip(words[::2], words[1::2], strict=False))
        prefix = "total_" if self._is_v1 else ""
        names = (f"{prefix}inactive_file", f"{prefix}active_file")
        return sum(int(found.get(name, 0)) for name in names)


def _has_swap() -> bool:
    try:
        return len(_SWAPS.read_text().splitlines()) > 1
    except OSError:
        return False


def container_groups(layout: Layout, name: str, controller: str) -> Iterator[tuple[str, Path]]:
    """Yield the groups of containers below a group, by their ids, in one hierarchy."""
    version_2 = next((found for found in layout.hierarchies if found.is_v2), None)
    hierarchy = version_2 if layout.mode != "v1" else None
    for found in layout.hierarchies:
        if hierarchy is None and not found.is_v2 and controller in found.controllers:
            hierarchy = found
    if hierarchy is None:
        raise HostError(f"no control group has the controller {controller}")
    for directory, below, _ in os.walk(hierarchy.path / name.strip("/")):
        for child in list(below):
            if id_ := _is_container(child):
                below.remove(child)
                yield id_[0], Path(directory, child)


def cpu_seconds(group: Path) -> float:
    """Return the CPU time that a group has used, of either version; 0 if it has gone."""
    words = _words(group / "cpuacct.usage")
    if words:
        return int(words[0]) / 1e9
    stat = _words(group / "cpu.stat")
    return int(dict(zip(stat[::2], stat[1::2], strict=False)).get("usage_usec", 0)) / 1e6


def remove_group(name: str, hierarchies: Sequence[Hierarchy]) -> None:
    """Remove a group whose processes have ended, and its parent if that is empty, too."""
    for hierarchy in hierarchies:
        top = hierarchy.path / name.strip("/")
        if not top.is_dir():
            continue
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # busy: it contains a foreign process
                Path(directory).rmdir()
        with contextlib.suppress(OSError):  # the common parent, if this was the last machine
            top.parent.rmdir()


def scope_command(unit: str, limits: Limits, environment: Mapping[str, str]) -> list[str]:
    """Return the words before a command that run it in a scope of the user's systemd.

    Only a login through systemd sets the variable that systemd-run needs; cron and su do not.
    The command is in a child of the scope: runc without root creates the groups of containers in
    the parent of its own group, and they would be beside the scope, without limits.
    """
    runtime_dir = _runtime_dir(os.geteuid(), environment)
    properties = ["Delegate=yes"]
    if limits.cpus:
        properties.append(f"CPUQuota={limits.cpus * 100}%")
    if limits.memory_bytes:
        properties += [f"MemoryMax={limits.memory_bytes}", "MemorySwapMax=0"]
    words = ["env", f"XDG_RUNTIME_DIR={runtime_dir}"]
    words += ["systemd-run", "--user", "--scope", "--quiet", "--collect", f"--unit={unit}"]
    return [*words, *(f"--property={text}" for text in properties), "sh", "-ec", _ENTER_CHILD, "sh"]


def _mount_options(controllers: Sequence[str]) -> str:
    """Return the options that mount an existing hierarchy of version 1 again."""
    named = controllers[0].startswith("name=") and len(controllers) == 1
    return ",".join(["none", *controllers] if named else controllers)


def _enable(directory: Path, controllers: Sequence[str]) -> None:
    """Enable the controllers for the children of a group of version 2, the needed ones at least."""
    enabled = _words(directory / "cgroup.subtree_control")
    for name in controllers:
        if name in enabled:
            continue
        try:
            _write(directory / "cgroup.subtree_control", f"+{name}")
        except HostError:
            if name in NEEDED:
                raise


def _inherit_cpuset(directory: Path) -> None:
    """Copy processors and memory nodes of the parent, without which no process can enter."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not _words(directory / name):
            _write(directory / name, " ".join(_words(directory.parent / name)))


def _make(directory: Path) -> None:
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise HostError.from_os(f'create the control group "{directory}"', error) from error


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise HostError.from_os(f'write "{text}" to "{path}"', error) from error
