# SPDX-License-Identifier: Apache-2.0
"""Changes of shared files on this computer, repeated in the guest so that its watchers see them.

inotify in a guest reports only what the guest itself does. So the directories that containers
mount are watched here, and a changed file gets the modification time that it has once more, in the
guest: its watchers then get IN_MODIFY, as with Lima's `mountInotify`. A removal is repeated as a
change of the directory. The loop in the guest reports which directories containers mount; with
`mountInotify` of the template everything shared is watched.

The repetition is itself a change of the file here, by the server of the mount; it is recognized
by an unchanged time and size.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.drivers.qemu.sharing.tree_watcher import (
    CLOSE_WRITE,
    GONE,
    IS_DIRECTORY,
    MODIFY,
    TreeWatcher,
)
from rdd.vm.ssh import SshError

_GATHER_S = 0.05  # a save is several events
_PAUSE_S = 1.0  # between batches: a program that writes all the time must not keep the guest busy
_RETRY_S = 5.0
_MOST_FILES = 200  # of one batch; beyond that, only their directories
_MOST_KNOWN = 4096
# Each line of the input is a time and a path. busybox has no -m.
_SCRIPT = """while IFS= read -r line; do
time=${line%% *} path=${line#* }
touch -c -m -d "@$time" "$path" 2>/dev/null || touch -c -d "@${time%.*}" "$path"
done <<'rdd-end-of-files'
"""
_END = "rdd-end-of-files\n"


class MountEvents:
    """Repeats changes of shared files in one guest."""

    def __init__(self, connection: GuestConnection, context: DriverContext) -> None:
        self._connection = connection
        self._context = context
        # A file system that is mounted for reading only cannot be told of a change.
        self._mounts = [mount for mount in context.template.mounts if mount.writable]
        self._by_source: dict[str, str] = {}
        for number, mount in enumerate(context.template.mounts):
            if mount.writable:
                self._by_source[f"mount{number}"] = mount.location
                self._by_source[f":{mount.location}"] = mount.location
        self._watcher: TreeWatcher | None = None
        self._changes: dict[str, bool] = {}
        """Paths that changed; True for those that must be repeated in any case."""
        self._repeated: dict[str, tuple[int, int]] = {}
        self._wanted: list[str] | None = None
        self._omitted = 0
        self._watch_task: asyncio.Task[None] | None = None
        self._send_task: asyncio.Task[None] | None = None

    def mounted(self, line: str) -> None:
        """Take what containers mount: source and directory of each, joined by `|`."""
        if not self._mounts:
            return
        if self._context.template.mount_inotify:
            self._watch([mount.location for mount in self._mounts])
        else:
            self._watch(sorted(set(_host_paths(line, self._by_source))))

    def _watch(self, wanted: list[str]) -> None:
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if self._watch_task is None or self._watch_task.done():
            self._watch_task = asyncio.create_task(self._watch_wanted(), name="mount events")

    async def _watch_wanted(self) -> None:
        present: list[str] | None = None
        while present != self._wanted:
            present = self._wanted
            try:
                if self._watcher is None:
                    self._watcher = TreeWatcher(self._changed, self._lost)
                await self._watcher.watch(present or ())
            except HostError as error:
                self._context.warn(f"containers do not see changes of shared files: {error}")
                return
            omitted, self._omitted = self._watcher.omitted, self._watcher.omitted
            if omitted:
                self._context.warn(
                    f"containers do not see changes in {omitted} shared directories: there are "
                    "too many; mount fewer, or raise fs.inotify.max_user_watches"
                )

    def _changed(self, path: str, mask: int) -> None:
        if mask & IS_DIRECTORY and mask & MODIFY:
            return  # the repetition of a removal
        if mask & GONE:
            path = os.path.dirname(path)  # noqa: PTH120 - for every event
        is_certain = bool(mask & ~(MODIFY | IS_DIRECTORY))
        self._changes[path] = self._changes.get(path, False) or is_certain
        if self._send_task is None or self._send_task.done():
            self._send_task = asyncio.create_task(self._send_all(), name="repeated changes")

    def _lost(self) -> None:
        for root in self._wanted or ():
            self._changed(root, CLOSE_WRITE)

    async def _send_all(self) -> None:
        pause_s = _GATHER_S
        while self._changes:
            await asyncio.sleep(pause_s)
            changes, self._changes = self._changes, {}
            lines = list(self._lines(changes))
            if not lines:
                continue
            try:
                await self._connection.run(
                    "sudo -n sh -s", script=f"{_SCRIPT}{''.join(lines)}{_END}"
                )
                pause_s = _PAUSE_S
            except SshError:  # the guest is paused, or its connection is lost
                self._changes = {**changes, **self._changes}
                pause_s = _RETRY_S

    def _lines(self, changes: dict[str, bool]) -> Iterator[str]:
        """Yield time and path in the guest of changes that are no repetitions."""
        paths: Iterable[str] = changes
        if len(changes) > _MOST_FILES:
            paths = {os.path.dirname(path): None for path in changes}  # noqa: PTH120
        for path in paths:
            try:
                found = os.stat(path, follow_symlinks=False)  # noqa: PTH116
            except OSError:
                continue
            # Servers of mounts may keep seconds only.
            state = (found.st_mtime_ns // 10**9, found.st_size)
            if not changes.get(path, True) and self._repeated.get(path) == state:
                continue
            guest = self._guest_path(path)
            if guest is None or "\n" in guest:
                continue
            if len(self._repeated) >= _MOST_KNOWN:
                self._repeated.clear()
            self._repeated[path] = state
            seconds, fraction = divmod(found.st_mtime_ns, 10**9)
            yield f"{seconds}.{fraction:09} {guest}\n"

    def _guest_path(self, path: str) -> str | None:
        for mount in self._mounts:
            if path == mount.location or path.startswith(f"{mount.location.rstrip('/')}/"):
                return mount.mount_point.rstrip("/") + path[len(mount.location.rstrip("/")) :]
        return None

    def close(self) -> None:
        """Stop repeating changes."""
        for task in (self._watch_task, self._send_task):
            if task is not None:
                task.cancel()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None


def _host_paths(line: str, by_source: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths on this computer; the guest may write anything."""
    for entry in line.split("|"):
        source, _, root = entry.strip().partition(" ")
        location = by_source.get(_unescaped(source))
        root = os.path.normpath(_unescaped(root)) if root.startswith("/") else ""
        if location is not None and root:
            yield location if root == "/" else location.rstrip("/") + root


def _unescaped(text: str) -> str:
    """Return a field of mountinfo, in which spaces are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
