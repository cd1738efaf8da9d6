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
            [entry("machines/rd/f"), entry("machines/rd/f", tarfile.SYMTYPE, "/etc")],
            "twice",
            id="link-over-file",
        ),
        pytest.param([entry("machines/rd/f"), entry("machines/rd//f")], "twice", id="twice"),
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


SOCKET = {"path": "machines/rd/s", "mode": 0, "uid": 0, "gid": 0, "mtimeNs": 0}
LINK = entry("machines/rd/l", tarfile.SYMTYPE, "/etc")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"path": "../../evil"}, "outside", id="parent"),
        pytest.param({"path": "machines/rd/l/s"}, "below a symbolic link", id="through a link"),
        pytest.param({"path": "machines/rd/l/../l/s"}, "outside", id="parent of a link"),
        pytest.param({"path": "machines/rd/l"}, "twice", id="in place of a link"),
        pytest.param({"path": "machines/rd/f"}, "twice", id="in place of a file"),
        pytest.param({"mode": -1}, "damaged", id="mode"),
        pytest.param({"uid": 1 << 32}, "damaged", id="owner"),
        pytest.param({"mtimeNs": 1 << 70}, "damaged", id="time"),
    ],
)
def test_hostile_socket_is_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = made(tmp_path / "a", LINK, entry("machines/rd/f"), sockets=[{**SOCKET, **changes}])
    with pytest.raises(HostError, match=why):
        archive.Archive(path).verify()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("created", value) for value in (float("nan"), float("inf"), -1, 1e12, True, "x")),
        *(("size_bytes", value) for value in (-1, 1.5, float("nan"), 1 << 70, True, "x")),
    ],
)
def test_number_that_no_manifest_has_is_refused(tmp_path: Path, key: str, value: object) -> None:
    found = made(tmp_path / "a", manifest={**asdict(manifest()), key: value})
    with pytest.raises(HostError, match="no valid manifest"):
        archive.Archive(found)


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
