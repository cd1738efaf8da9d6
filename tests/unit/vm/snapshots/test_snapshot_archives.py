# SPDX-License-Identifier: Apache-2.0
"""Archives that are changed, foreign, newer or hostile: refused before anything is written."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.unit.vm.snapshots.test_snapshot_copies import manifest

from rdd.host.errors import HostError
from rdd.vm.snapshots import archive


def entry(name: str, type_: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> Any:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = type_, link, size
    return info


def made(path: Path, *members: Any, **changes: Any) -> Path:
    """Write an archive with these members in its content and a valid checksum."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as tar:
        for info in members:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    content = gzip.compress(inner.getvalue())
    header = {
        "format": 1,
        "compression": "gzip",
        "sha256": hashlib.sha256(content).hexdigest(),
        "contentBytes": str(len(content)),
        "sockets": [],
        "manifest": asdict(manifest()),
        **changes,
    }
    with tarfile.open(path, "w:") as outer:
        for name, data in (
            (archive.HEADER, json.dumps(header).encode()),
            ("content.tar.gz", content),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            outer.addfile(info, io.BytesIO(data))
    return path


def test_plain_archive_is_accepted(tmp_path: Path) -> None:
    members = [
        entry("./machines/rd/d", tarfile.DIRTYPE),
        entry("./machines/rd/d/f"),
        entry("machines/rd/h", tarfile.LNKTYPE, "./machines/rd/d/f"),
        entry("machines/rd/l", tarfile.SYMTYPE, "/etc"),
    ]
    archive.Archive(made(tmp_path / "a", *members)).verify()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        pytest.param([entry("../evil")], "outside of the snapshot", id="parent"),
        pytest.param([entry("machines/rd/../../../evil")], "outside", id="inner-parent"),
        pytest.param([entry("/etc/passwd")], "outside of the snapshot", id="absolute"),
        pytest.param([entry("manifest.json")], "does not name it", id="manifest"),
        pytest.param([entry("machines/other/f")], "does not name it", id="other-machine"),
        pytest.param(
            [entry("machines/rd/l", tarfile.SYMTYPE, "/etc"), entry("machines/rd/l/passwd")],
            "below a symbolic link",
            id="through-link",
        ),
        pytest.param(
            [entry("machines/rd/l", tarfile.SYMTYPE, "/etc/x"), entry("machines/rd/l")],
            "twice",
            id="over-link",
        ),
        pytest.param(
            [entry("machines/rd/h", tarfile.LNKTYPE, "/etc/shadow")], "outside", id="hard-link"
        ),
        pytest.param(
            [entry("machines/rd/h", tarfile.LNKTYPE, "machines/rd/none")],
            "hard link to nothing",
            id="hard-link-to-nothing",
        ),
        pytest.param(
            [entry("machines/rd/bomb", size=80 << 20)], "larger than it announces", id="bomb"
        ),
    ],
)
def test_hostile_member_is_refused(tmp_path: Path, members: list[Any], why: str) -> None:
    with pytest.raises(HostError, match=why):
        archive.Archive(made(tmp_path / "a", *members)).verify()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"format": 2}, "newer rdd", id="newer"),
        pytest.param({"sha256": "0" * 64}, "was changed", id="digest"),
        pytest.param({"contentBytes": "1"}, "another size", id="size"),
        pytest.param({"compression": "lzma"}, "incomplete", id="compression"),
        pytest.param({"manifest": {}}, "no valid manifest", id="manifest"),
        pytest.param({"manifest": None}, "no valid manifest", id="no-manifest"),
        pytest.param({"sockets": [{"path": "a"}]}, "damaged", id="sockets"),
        pytest.param(
            {"manifest": {**asdict(manifest()), "format": 9, "version": "7.0"}},
            "newer rdd .7.0.",
            id="newer-manifest",
        ),
        pytest.param(
            {"manifest": {**asdict(manifest()), "machines": {"../x": {}}}},
            "is not one of a machine",
            id="machine-name",
        ),
    ],
)
def test_changed_header_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(HostError, match=why):
        archive.Archive(made(tmp_path / "a", **changes)).verify()


def test_socket_outside_is_refused(tmp_path: Path) -> None:
    one = {"path": "../../evil", "mode": 0, "uid": 0, "gid": 0, "mtimeNs": 0}
    with pytest.raises(HostError, match="outside"):
        archive.Archive(made(tmp_path / "a", sockets=[one])).verify()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: b"not an archive" * 100, id="foreign"),
        pytest.param(lambda data: data[:1500], id="cut-in-the-header"),
        pytest.param(lambda data: data[: data.index(b"content.tar") + 600], id="cut"),
        pytest.param(
            lambda data: data.replace(b"\x1f\x8b\x08", b"\x1f\x8b\x09", 1), id="changed-byte"
        ),
    ],
)
def test_damaged_file_is_refused(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = made(tmp_path / "a", entry("machines/rd/f", size=100))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(HostError, match=r"not a snapshot|changed|incomplete|damaged"):
        archive.Archive(path).verify()
