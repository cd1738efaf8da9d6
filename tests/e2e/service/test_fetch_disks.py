# SPDX-License-Identifier: Apache-2.0
"""What is fetched, on disks that are full, read-only, or share blocks between files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.file_systems import used_bytes
from tests.programs import run_program
from tests.publisher import Publisher, publishing

from rdd.fetch.cache import Cache
from rdd.fetch.checkout import copy
from rdd.fetch.digests import Digest
from rdd.toolbox.catalogue import Catalogue, platform_of
from rdd.toolbox.installation import Toolbox

VERSION = "2.40.3"
SIZE = 4 << 20


@pytest.fixture
def compose() -> Iterator[Publisher]:
    """Publish a Compose that is larger than a small disk."""
    content = os.urandom(SIZE)
    system = os.uname()
    platform = platform_of(system.sysname, system.machine)
    (file,) = Catalogue.shipped().tool("compose").files(VERSION, platform)
    with publishing() as found:
        digest = found.publish(file.url, content).removeprefix("sha256:")
        found.publish(file.checksum_url, f"{digest} *{file.name}\n".encode())
        yield found


def install(world: World, compose: Publisher) -> tuple[int, str]:
    world.rdd("set", "running=false", f"downloads.mirror={compose.url}")
    done = world.try_rdd("tools", "install", "--yes", f"compose@{VERSION}")
    return done.code, done.last[1]


def test_full_disk_installs_nothing_and_the_next_attempt_succeeds(
    world: World, mounted: Callable[..., Path], compose: Publisher
) -> None:
    tools = world.instance.tools_dir
    mounted(tools)
    code, message = install(world, compose)
    assert (code, "No space left on device" in message) == (1, True), message
    assert Toolbox(tools).installed() == []
    assert sorted(path.name for path in tools.iterdir()) == [".lock"]
    run_program(["mount", "-o", "remount,size=16m", str(tools)], check=True)
    compose.requests.clear()
    assert install(world, compose)[0] == 0
    assert compose.requests == []  # the cache has it
    assert (tools / "bin" / "docker-compose").stat().st_size == SIZE


def test_full_cache_keeps_what_it_has(
    world: World, mounted: Callable[..., Path], compose: Publisher
) -> None:
    cache = mounted(world.home / ".cache" / "rdd")
    code, message = install(world, compose)
    assert code == 1
    assert "are free" in message
    assert message.endswith("nothing was installed")
    run_program(["mount", "-o", "remount,size=16m", str(cache)], check=True)
    assert install(world, compose)[0] == 0


def test_read_only_cache_is_reported_and_used_once_it_has_the_file(
    world: World, mounted: Callable[..., Path], compose: Publisher
) -> None:
    cache = mounted(world.home / ".cache" / "rdd", options="size=16m")
    run_program(["mount", "-o", "remount,ro", str(cache)], check=True)
    code, message = install(world, compose)
    assert code == 1
    assert "Read-only file system" in message
    assert message.endswith("nothing was installed")
    run_program(["mount", "-o", "remount,rw", str(cache)], check=True)
    assert install(world, compose)[0] == 0


def test_two_instances_fetch_a_file_once(world: World, compose: Publisher) -> None:
    other = world.named("other")
    words = ("tools", "install", "--yes", f"compose@{VERSION}")
    for one in (world, other):
        one.rdd("set", "running=false", f"downloads.mirror={compose.url}")
    compose.gate.clear()
    running = [one.begin(*words) for one in (world, other)]
    # The checksums are read by each, the file by one of them while the other waits for its lock.
    world.until(lambda: sum("sha256" in line for line in compose.requests) == 2)
    world.until(lambda: sum("sha256" not in line for line in compose.requests) == 1)
    compose.gate.set()
    for program in running:
        done = world.end(program)
        assert done.code == 0, done
    assert sum("sha256" not in line for line in compose.requests) == 1
    mine, theirs = (one.instance.tools_dir / "bin" / "docker-compose" for one in (world, other))
    assert not mine.samefile(theirs)
    other.rdd("tools", "install", "--link-plugins", f"compose@{VERSION}")
    link = world.home / ".docker" / "cli-plugins" / "docker-compose"
    assert link.samefile(theirs)
    other.rdd("service", "delete", "--yes")
    assert not link.is_symlink()
    assert mine.stat().st_size == SIZE


def test_package_on_full_disks_installs_nothing_and_the_next_attempt_succeeds(
    world: World, mounted: Callable[..., Path], compose: Publisher, tmp_path: Path
) -> None:
    assert install(world, compose)[0] == 0
    package = tmp_path / "package"
    world.rdd("package", "create", "--yes", "--settings=false", str(package))
    other = world.named("other")
    tools = mounted(other.instance.tools_dir)
    cache = mounted(tmp_path / "cache")

    def attempt() -> tuple[int, str]:
        words = ("package", "install", "--yes", str(package))
        done = other.try_rdd(*words, RDD_CACHE_DIR=str(cache))
        return done.code, done.last[1] if done.code else ""

    code, message = attempt()
    assert (code, "No space left on device" in message) == (1, True), message
    kept = Cache(cache / "files")
    assert list(kept.entries()) == []
    assert kept.partial_files() == []
    assert list(tools.iterdir()) == []
    run_program(["mount", "-o", "remount,size=16m", str(cache)], check=True)
    code, message = attempt()
    assert (code, "No space left on device" in message) == (1, True), message
    assert Toolbox(tools).installed() == []
    run_program(["mount", "-o", "remount,size=16m", str(tools)], check=True)
    assert attempt() == (0, "")
    assert (tools / "bin" / "docker-compose").stat().st_size == SIZE


def test_copy_shares_blocks_but_no_inode_with_the_cache(xfs: Path) -> None:
    cache = Cache(xfs / "cache")
    size = 64 << 20
    partial = cache.partial("test")
    partial.write_bytes(os.urandom(size))
    digest = Digest.of(partial)
    entry = cache.add(partial, digest)
    before = used_bytes(xfs)
    copy(entry, xfs / "copy")
    assert used_bytes(xfs) - before < size // 8
    assert not entry.samefile(xfs / "copy")
    with (xfs / "copy").open("r+b") as file:
        file.write(b"changed")
    assert Digest.of(entry) == digest
    assert Digest.of(xfs / "copy") != digest
