# SPDX-License-Identifier: Apache-2.0
"""Directories with everything that a container engine has, and their comparison."""

import hashlib
import os
import socket
import stat
from pathlib import Path
from typing import Any

CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")
_TIMES = (10**18 + 123_456_789, 10**18 + 987_654_321)


def fill(root: Path) -> None:
    """Create one entry of each sort below an existing directory; needs root."""
    data = root / "docker"
    (data / "overlay2" / "layer" / "diff").mkdir(parents=True)
    diff = data / "overlay2" / "layer" / "diff"
    (diff / "plain").write_bytes(b"plain" * 1000)
    os.chown(diff / "plain", 1234, 2345)
    (diff / "plain").chmod(0o4751)
    os.link(diff / "plain", data / "hard")
    (diff / "capable").write_bytes(b"\x7fELF")
    os.setxattr(diff / "capable", "security.capability", CAPABILITY)
    os.setxattr(diff, "trusted.overlay.opaque", b"y")
    os.setxattr(diff / "plain", "user.note", b"\0\xff")
    os.mknod(diff / "whiteout", stat.S_IFCHR, os.makedev(0, 0))
    os.mkfifo(diff / "fifo", 0o640)
    parent = os.open(diff, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"/proc/self/fd/{parent}/socket")  # the whole path may be too long
    os.close(parent)
    (diff / "dangling").symlink_to("/nowhere/../at all")
    (diff / "dir link").symlink_to("..")
    with (data / "sparse").open("wb") as file:
        file.truncate(1 << 26)
        file.seek(1 << 25)
        file.write(b"in the middle")
    (data / "empty").mkdir()
    Path(os.fsdecode(os.fsencode(diff) + b"/odd\xffname")).write_bytes(b"")
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, ns=_TIMES, follow_symlinks=False)


def description(root: Path) -> dict[str, Any]:
    """Return everything about the entries below a directory; equal for identical copies."""
    links: dict[int, str] = {}
    found = {}
    for path in sorted(root.rglob("*")):
        name, status = str(path.relative_to(root)), path.lstat()
        content = ""
        if stat.S_ISREG(status.st_mode):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        elif stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        found[name] = (
            oct(status.st_mode),
            (status.st_uid, status.st_gid),
            status.st_mtime_ns,
            status.st_rdev,
            content,
            links.setdefault(status.st_ino, name),
            {
                key: os.getxattr(path, key, follow_symlinks=False)
                for key in os.listxattr(path, follow_symlinks=False)
            },
            # A sparse copy may round up, but never writes the holes.
            status.st_size if status.st_blocks * 512 < status.st_size // 2 else "full",
        )
    return found
