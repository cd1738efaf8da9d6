# SPDX-License-Identifier: Apache-2.0
"""Files that have not changed since a copy: they are not copied again.

Two copies are meant: the last snapshot, to which unchanged files become hard links, and the one
that was made of the running machine, of which unchanged files are kept when it is stopped.

Where blocks cannot be shared, a snapshot is a copy. Most files of a container engine are layers of
images, which never change. Each copy keeps an index of its source: inode and time of change
(ctime) of each file. The kernel sets that time with every change of content or attributes, and no
program can set it back; so a file with the same inode and time is the one that was copied. The
machine is stopped and its files are on the disk, so no change is still to come.

Memory that is mapped to a file may be written without a change of that time until the kernel has
written the page to the disk. So only files that had not changed when everything was last flushed
are kept of a running machine. Those whose copy was interrupted have another size or time.

Nothing writes into a snapshot, and removing one leaves the links of others. What cannot be linked,
such as the files of a rootless engine, which belong to other users, is copied.
"""

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.host.tree_removal import remove_tree

Index = dict[str, tuple[int, int, int]]
"""Inode, ctime in nanoseconds and size of each file, by its path."""


def index_of(source: Path, names: Sequence[str]) -> Index:
    """Return the index of regular files below entries of a directory. Blocking."""
    found: Index = {}
    pending = [source / name for name in names]
    while pending:
        path = pending.pop()
        with suppress(OSError):  # of another user: it is copied
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                pending += path.iterdir()
            elif stat.S_ISREG(status.st_mode):
                place = str(path.relative_to(source))
                found[place] = (status.st_ino, status.st_ctime_ns, status.st_size)
    return found


def write_index(path: Path, index: Index) -> None:
    """Keep an index. Raises HostError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomically(path, json.dumps(index))


def read_index(path: Path) -> Index:
    """Return a kept index; an empty one if there is none."""
    try:
        found = json.loads(read_text(path) or "{}")
        return {str(place): (int(a), int(b), int(c)) for place, (a, b, c) in found.items()}
    except (HostError, ValueError, TypeError, AttributeError):
        return {}


def link_unchanged(previous: Path, before: Index, now: Index, target: Path) -> int:
    """Link unchanged files of a previous copy to a new directory; return their size. Blocking.

    Directories get their attributes from the copy that follows.
    """
    made: set[Path] = set()
    size = 0
    for place, seen in now.items():
        if before.get(place) != seen:
            continue
        path = target / place
        with suppress(OSError):  # it is copied
            if path.parent not in made:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                made.add(path.parent)
            os.link(previous / place, path, follow_symlinks=False)
            size += seen[2]
    return size


def drop_changed(target: Path, source: Path, before: Index, now: Index, flushed_ns: int) -> int:
    """Remove from a copy of a running machine what must be copied again; return what is kept.

    `before` is the index from before the copy, which began after the flush. Blocking. Raises
    HostError.
    """
    kept, pending = 0, [target]
    try:
        while pending:
            directory = pending.pop()
            for entry in list(os.scandir(directory)):
                path = Path(entry.path)
                place = path.relative_to(target)
                if entry.is_dir(follow_symlinks=False):
                    if _is_directory(source / place):
                        _forget_attributes(path)
                        pending.append(path)
                    else:
                        remove_tree(path)
                    continue
                seen = now.get(str(place))
                is_same = seen is not None and before.get(str(place)) == seen
                if seen and is_same and seen[1] < flushed_ns and _is_complete(path, source / place):
                    kept += seen[2]
                else:
                    path.unlink()
    except OSError as error:
        raise HostError.from_os(f'compare "{target}" with "{source}"', error) from error
    return kept


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _forget_attributes(directory: Path) -> None:
    """Remove the extended attributes of a directory: the copy that follows only adds some."""
    for name in os.listxattr(directory):
        os.removexattr(directory, name)


def _is_complete(copy: Path, source: Path) -> bool:
    one, other = copy.lstat(), source.lstat()
    return (one.st_mtime_ns, one.st_size) == (other.st_mtime_ns, other.st_size)
