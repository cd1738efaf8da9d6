# SPDX-License-Identifier: Apache-2.0
"""Installation of tools: atomic, several versions, hostile archives, a cache that stays intact."""

import gzip
import io
import lzma
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rdd.fetch.digests import Digest
from rdd.host.errors import FailureReason
from rdd.toolbox.catalogue import Catalogue, CatalogueFile
from rdd.toolbox.errors import BrokenArchive
from rdd.toolbox.installation import FetchedFile, Toolbox
from rdd.toolbox.unpacking import unpack

TOOL = Catalogue.shipped().tool("docker")
ENGINE = Catalogue.shipped().tool("engine")
COMPOSE = Catalogue.shipped().tool("compose")
PROGRAMS = {"docker/docker": "docker"}

Member = tuple[str, bytes] | tarfile.TarInfo


def archive(*members: Member, compress: Callable[[bytes], bytes] = gzip.compress) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member, io.BytesIO(bytes(member.size)))
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return compress(buffer.getvalue())


def special(name: str, kind: bytes, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


def fetched(path: Path, content: bytes, programs: dict[str, str]) -> FetchedFile:
    path.write_bytes(content)
    path.chmod(0o444)
    file = CatalogueFile(url=f"https://files.example/{path.name}", programs=programs)
    return FetchedFile(file, path, Digest.of(path))


@pytest.fixture
def toolbox(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path / "tools")


@pytest.fixture
def install(toolbox: Toolbox, tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Return a function that installs a version of the Docker CLI from an archive."""

    def install(version: str, content: bytes) -> Path:
        path = tmp_path / f"docker-{version}.tgz"
        return toolbox.install(TOOL, version, [fetched(path, content, PROGRAMS)]).directory

    return install


def everything(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_version_is_installed_and_put_on_path(
    toolbox: Toolbox, install: Callable[[str, bytes], Path]
) -> None:
    directory = install("28.5.1", archive(("docker/README", b"text"), ("docker/docker", b"new")))
    program = toolbox.bin_dir / "docker"
    assert program.read_bytes() == b"new"
    assert program.resolve() == directory / "docker"
    assert os.access(program, os.X_OK)
    (found,) = toolbox.installed()
    assert (found.version, found.programs, found.is_current) == ("28.5.1", ("docker",), True)
    assert everything(toolbox.root) == [
        *(".lock", "bin", "bin/docker", "versions", "versions/docker", "versions/docker/28.5.1"),
        *("versions/docker/28.5.1/docker", "versions/docker/28.5.1/installed.json"),
        "versions/docker/current",
    ]


def test_versions_are_kept_side_by_side_and_the_last_selected_is_in_use(
    toolbox: Toolbox, install: Callable[[str, bytes], Path]
) -> None:
    install("27.5.1", archive(("docker/docker", b"old")))
    install("28.5.1", archive(("docker/docker", b"new")))
    toolbox.select("docker", "27.5.1")
    assert (toolbox.bin_dir / "docker").read_bytes() == b"old"
    toolbox.remove("docker", "27.5.1")
    assert (toolbox.bin_dir / "docker").read_bytes() == b"new"
    toolbox.remove("docker", "28.5.1")
    assert everything(toolbox.root) == [".lock", "bin", "versions"]


def test_links_and_programs_of_others_stay(
    toolbox: Toolbox, install: Callable[[str, bytes], Path]
) -> None:
    toolbox.bin_dir.mkdir(parents=True)
    (toolbox.bin_dir / "mine").symlink_to("/usr/bin/true")
    (toolbox.bin_dir / "own").write_text("text")
    install("28.5.1", archive(("docker/docker", b"new")))
    toolbox.remove("docker", "28.5.1")
    assert sorted(path.name for path in toolbox.bin_dir.iterdir()) == ["mine", "own"]


def test_engine_is_not_put_on_path(toolbox: Toolbox, tmp_path: Path) -> None:
    file = fetched(tmp_path / "e.tgz", archive(("d/dockerd", b"1")), {"d/dockerd": "dockerd"})
    found = toolbox.install(ENGINE, "28.5.1", [file])
    assert (found.is_current, found.programs) == (False, ("dockerd",))
    assert not toolbox.bin_dir.exists()


def test_program_is_a_copy_that_shares_no_inode_with_the_cache(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    file = fetched(tmp_path / "compose", b"program", {"": "docker-compose"})
    installed = toolbox.install(COMPOSE, "2.40.3", [file]).directory / "docker-compose"
    assert not installed.samefile(file.path)
    installed.write_bytes(b"changed")
    assert file.path.read_bytes() == b"program"


def test_version_that_lost_a_program_is_missing_and_installed_again(
    toolbox: Toolbox, install: Callable[[str, bytes], Path]
) -> None:
    directory = install("28.5.1", archive(("docker/docker", b"new")))
    (directory / "docker").unlink()
    assert toolbox.find("docker", "28.5.1") is None
    assert toolbox.installed() == []
    install("28.5.1", archive(("docker/docker", b"new")))
    assert (toolbox.bin_dir / "docker").read_bytes() == b"new"


def test_remains_of_a_crash_are_removed_by_the_next_change(
    toolbox: Toolbox, install: Callable[[str, bytes], Path]
) -> None:
    (toolbox.root / ".staging-1").mkdir(parents=True)
    (toolbox.root / ".staging-1" / "docker").write_text("half")
    assert toolbox.installed() == []
    install("28.5.1", archive(("docker/docker", b"new")))
    assert not (toolbox.root / ".staging-1").exists()


def test_concurrent_installations_of_one_version_both_succeed(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    content = archive(("docker/docker", b"new"))
    files = [fetched(tmp_path / f"{n}.tgz", content, PROGRAMS) for n in range(2)]
    threads = [
        threading.Thread(target=toolbox.install, args=(TOOL, "28.5.1", [file])) for file in files
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.version for one in toolbox.installed()] == ["28.5.1"]


BAD = [
    pytest.param(archive(("../docker/docker", b"x")), "leads out of it", id="upwards"),
    pytest.param(archive(("a/../../docker", b"x")), "leads out of it", id="upwards inside"),
    pytest.param(archive(("/docker/docker", b"x")), "leads out of it", id="absolute"),
    pytest.param(
        archive(special("docker/docker", tarfile.SYMTYPE, "/etc/passwd")),
        "neither a file nor a directory",
        id="symbolic link",
    ),
    pytest.param(
        archive(("docker/x", b"x"), special("docker/docker", tarfile.LNKTYPE, "docker/x")),
        "neither a file nor a directory",
        id="hard link",
    ),
    pytest.param(
        archive(special("docker/null", tarfile.CHRTYPE), ("docker/docker", b"x")),
        "neither a file nor a directory",
        id="device",
    ),
    pytest.param(
        archive(special("docker/docker", tarfile.FIFOTYPE)),
        "neither a file nor a directory",
        id="pipe",
    ),
    pytest.param(
        archive(special("docker/docker", tarfile.DIRTYPE)), "is not a file", id="directory"
    ),
    pytest.param(
        archive(special("docker/docker", tarfile.REGTYPE, size=64 << 20)),
        "it expands to more than",
        id="bomb",
    ),
    pytest.param(
        archive(
            special("docker/docker", tarfile.REGTYPE, size=64 << 20),
            compress=lambda data: lzma.compress(data, preset=0),
        ),
        "it expands to more than",
        id="bomb of xz",
    ),
    pytest.param(
        archive(special("x", tarfile.XHDTYPE, size=8 << 20)), "a header of", id="large header"
    ),
    pytest.param(
        archive(special("x", tarfile.GNUTYPE_LONGNAME, size=8 << 20)), "a header of", id="long name"
    ),
    pytest.param(
        archive(*[special("x", tarfile.XGLTYPE, size=512) for _ in range(3000)]),
        "it is damaged",
        id="nested headers",
    ),
    pytest.param(archive(("other", b"x")), "does not contain docker/docker", id="missing"),
    pytest.param(archive(("docker/docker", os.urandom(9000)))[:4000], "damaged", id="truncated"),
    pytest.param(
        archive(("docker/docker", os.urandom(9000)), compress=lzma.compress)[:4000],
        "damaged",
        id="truncated xz",
    ),
    pytest.param(b"<html>not found</html>", "damaged", id="a page"),
    pytest.param(b"", "damaged", id="empty"),
    pytest.param(b"\x28\xb5\x2f\xfd" + bytes(100), "zstd is not supported", id="zstd"),
    pytest.param(b"\x1f\x8b\x08" + bytes(100), "damaged", id="damaged gzip"),
]


@pytest.mark.parametrize(("content", "problem"), BAD)
def test_bad_archive_is_rejected_and_changes_nothing(
    toolbox: Toolbox, install: Callable[[str, bytes], Path], content: bytes, problem: str
) -> None:
    install("27.5.1", archive(("docker/docker", b"old")))
    before = everything(toolbox.root)
    with pytest.raises(BrokenArchive, match=problem) as caught:
        install("28.5.1", content)
    assert "nothing was installed" in str(caught.value)
    assert caught.value.reason is FailureReason.INVALID_SOURCE
    assert everything(toolbox.root) == before
    assert (toolbox.bin_dir / "docker").read_bytes() == b"old"


def test_optional_member_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(archive(("a", b"1"), compress=lzma.compress))
    (tmp_path / "out").mkdir()
    programs = {"a": "a", "b": "b"}
    unpack(tmp_path / "a.tgz", programs, tmp_path / "out", name="a.tgz", optional={"b"})
    assert everything(tmp_path / "out") == ["a"]
