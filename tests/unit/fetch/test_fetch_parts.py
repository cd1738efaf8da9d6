# SPDX-License-Identifier: Apache-2.0
"""Causes of failed fetches, mirrors, checksum files, checkouts, eviction, archives."""

import asyncio
import hashlib
import io
import os
import ssl
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.origin import CONTENT, DIGEST, Origin, serving
from tests.programs import run_program

from rdd.fetch import checkout, failures
from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest, find_checksum
from rdd.fetch.eviction import evict
from rdd.fetch.failures import FetchError, FetchFailure
from rdd.fetch.fetching import fetch, published_digest
from rdd.fetch.network import Network
from rdd.fetch.progress import Meter, Progress
from rdd.fetch.transport import export_entries, import_entries
from rdd.host.errors import FailureReason, HostError

HEX = hashlib.sha256(b"content").hexdigest()


async def get(cache: Cache, location: str, digest: str = DIGEST, **network: object) -> Digest:
    return await fetch(
        location,
        digest,
        cache=cache,
        report=lambda _: None,
        network=Network(**network),  # type: ignore[arg-type]  # the caller's names
    )


async def failure_of(cache: Cache, location: str, digest: str = DIGEST, **network: object) -> str:
    with pytest.raises(FetchError) as caught:
        await get(cache, location, digest, **network)
    assert not list(cache.entries())
    return caught.value.failure


def added(cache: Cache, content: bytes, location: str = "") -> Digest:
    path = cache.partial(f"test {content!r}")
    path.write_bytes(content)
    digest = Digest.of(path)
    cache.add(path, digest, location=location)
    return digest


# -- checksum files


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{HEX}  k3s\n", id="gnu"),
        pytest.param(f"{HEX} *k3s\n", id="gnu-binary"),
        pytest.param(f"{'0' * 64}  other\n{HEX}  ./dist/k3s\n", id="path"),
        pytest.param(f"SHA256 (k3s) = {HEX.upper()}\n", id="bsd"),
        pytest.param(f"{HEX}\n", id="bare"),
        pytest.param(f"# checksums\n\n{HEX}  k3s\n", id="comment"),
    ],
)
def test_checksum_files_of_publishers_are_read(text: str) -> None:
    assert find_checksum(text, "k3s") == Digest("sha256", HEX)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(f"{HEX}  k3s-arm64\n", id="another"),
        pytest.param("<html>not found</html>", id="page"),
        pytest.param(f"{HEX}\n{'0' * 64}\n", id="ambiguous"),
        pytest.param(f"{HEX[:40]}  k3s\n", id="sha1"),
    ],
)
def test_checksum_of_a_file_that_is_not_listed_is_missing(text: str) -> None:
    assert find_checksum(text, "k3s") is None


async def test_published_checksum_is_read_and_a_missing_one_reported(origin: Origin) -> None:
    origin.texts["/sums"] = f"{HEX}  k3s\n"
    assert str(await published_digest(f"{origin.base}/sums", "k3s")) == f"sha256:{HEX}"
    with pytest.raises(FetchError, match='does not list "helm"') as caught:
        await published_digest(f"{origin.base}/sums", "helm")
    assert caught.value.failure == FetchFailure.NO_CHECKSUM


# -- causes


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (404, FetchFailure.NOT_FOUND),
        (410, FetchFailure.NOT_FOUND),
        (403, FetchFailure.REJECTED),
        (407, FetchFailure.PROXY_AUTHENTICATION),
        (429, FetchFailure.SERVER_ERROR),
        (503, FetchFailure.SERVER_ERROR),
    ],
)
async def test_status_of_a_response_is_a_cause(
    origin: Origin, cache: Cache, status: int, expected: FetchFailure
) -> None:
    origin.status = status
    assert await failure_of(cache, origin.url) == expected


async def test_connection_failures_are_distinguished(
    cache: Cache, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "is_offline", lambda: False)
    assert await failure_of(cache, "http://127.0.0.1:9/x") == FetchFailure.UNREACHABLE
    name = "http://does-not-exist.invalid/x"
    assert await failure_of(cache, name) == FetchFailure.NAME_NOT_RESOLVED
    monkeypatch.setattr(failures, "is_offline", lambda: True)
    assert await failure_of(cache, name) == FetchFailure.OFFLINE
    assert await failure_of(cache, "ftp://host/x") == FetchFailure.INVALID_SOURCE
    assert await failure_of(cache, "http:///x") == FetchFailure.INVALID_SOURCE
    wrong = f"sha256:{'0' * 64}"
    assert await failure_of(cache, origin.url, wrong) == FetchFailure.CHECKSUM_MISMATCH
    assert await get(cache, origin.url) == Digest.parse(DIGEST)  # nothing was kept of it


def test_host_without_a_default_route_is_offline() -> None:
    code = "from rdd.fetch.failures import is_offline; print(is_offline())"
    done = run_program(["unshare", "-n", sys.executable, "-c", code])
    assert done.stdout == "True\n", done.stderr


def test_only_failures_that_no_retry_resolves_have_a_reason() -> None:
    assert failures.from_status("u", 503, "x").reason is None
    assert failures.from_status("u", 404, "x").reason is FailureReason.INVALID_SOURCE
    assert failures.from_status("u", 407, "x").reason is FailureReason.NO_NETWORK


@pytest.fixture
def certificate(tmp_path: Path, openssl_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    made = (tmp_path / "cert.pem", tmp_path / "key.pem")
    done = run_program(
        [openssl_path, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=origin", "-addext", "subjectAltName=IP:127.0.0.1",
         "-out", made[0], "-keyout", made[1]]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return made


async def test_unknown_authority_is_a_cause_and_an_additional_one_is_trusted(
    cache: Cache, certificate: tuple[Path, Path]
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with serving(tls) as origin:
        assert await failure_of(cache, origin.url) == FetchFailure.NOT_TRUSTED
        authorities = [certificate[0].read_text()]
        assert await get(cache, origin.url, authorities=authorities) == Digest.parse(DIGEST)
        other = Cache(cache.root / "2")
        found = await failure_of(other, origin.url, authorities=["not a certificate"])
        assert found == FetchFailure.NOT_TRUSTED


# -- network


def test_mirror_serves_all_hosts_below_one_url() -> None:
    network = Network(mirror="https://mirror.example/rdd/")
    found = network.resolve("https://github.com/k3s-io/k3s/releases/k3s?x=1")
    assert found == "https://mirror.example/rdd/github.com/k3s-io/k3s/releases/k3s?x=1"


async def test_file_comes_from_the_mirror_and_is_verified(cache: Cache, origin: Origin) -> None:
    location = "https://files.example/tools/k3s"
    assert await get(cache, location, mirror=origin.base) == Digest.parse(DIGEST)
    assert origin.paths == ["/files.example/tools/k3s"]
    (entry,) = cache.entries()
    assert entry.location == location


async def test_redirects_are_followed(cache: Cache, origin: Origin) -> None:
    origin.redirect = "/real"
    assert await get(cache, origin.url) == Digest.parse(DIGEST)
    assert origin.paths == ["/disk.img", "/real"]


@pytest.mark.parametrize(
    ("no_proxy", "is_proxied"),
    [
        ([], True),
        (["files.example"], False),
        ([".example"], False),
        (["*.example"], False),
        (["*"], False),
        (["xample"], True),
    ],
)
def test_proxy_applies_unless_the_host_bypasses_it(no_proxy: list[str], is_proxied: bool) -> None:
    network = Network(http_proxy="http://proxy:3128", no_proxy=no_proxy)
    assert ("proxy" in network.options("https://files.example/x")) is is_proxied


def test_networks_bypass_the_proxy() -> None:
    network = Network(http_proxy="http://proxy:3128", no_proxy=["10.0.0.0/8", "fd00::/8"])
    assert "proxy" not in network.options("http://10.1.2.3/x")
    assert "proxy" not in network.options("http://[fd00::1]/x")
    assert "proxy" in network.options("http://11.1.2.3/x")


async def test_proxy_is_used(cache: Cache, origin: Origin) -> None:
    location = "http://files.example/k3s"
    assert await get(cache, location, http_proxy=origin.base) == Digest.parse(DIGEST)


# -- transfer


async def test_server_without_ranges_sends_the_file_again(cache: Cache, origin: Origin) -> None:
    origin.cut_after = 200_000
    origin.has_ranges = False
    assert await get(cache, origin.url) == Digest.parse(DIGEST)
    assert [request.partition(" ")[0] for request in origin.requests] == ["GET", "GET"]


async def test_two_processes_fetch_a_file_once(cache: Cache, origin: Origin) -> None:
    other = Cache(cache.root)
    await asyncio.gather(get(cache, origin.url), get(other, origin.url))
    assert origin.requests == ["GET"]


async def test_read_only_cache_serves_what_it_has(cache: Cache, origin: Origin) -> None:
    digest = await get(cache, origin.url)
    assert cache.find(digest) == cache.path(digest)
    assert cache.path(digest).stat().st_mode & 0o777 == 0o444


def test_progress_has_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("rdd.fetch.progress.time.monotonic", lambda: now)
    found: list[Progress] = []
    meter = Meter("Downloading k3s", found.append)
    mib = 1 << 20
    meter.update(0, 100 * mib)
    now += 0.1
    meter.update(mib, 100 * mib)  # too early
    now += 1.9
    meter.update(20 * mib, 100 * mib)
    meter.update(100 * mib, 100 * mib)
    assert [str(one) for one in found] == [
        "Downloading k3s: 0 % (0 B of 100.0 MiB)",
        "Downloading k3s: 20 % (20.0 MiB of 100.0 MiB, 10.0 MiB/s, 8 s left)",
        "Downloading k3s: 100 % (100.0 MiB of 100.0 MiB)",
    ]


# -- checkouts


def test_writable_checkout_never_shares_the_entry(cache: Cache, tmp_path: Path) -> None:
    source = cache.path(added(cache, CONTENT))
    target = tmp_path / "copy"
    checkout.copy(source, target)
    assert target.stat().st_ino != source.stat().st_ino
    with target.open("r+b") as file:
        file.write(b"changed")
    assert source.read_bytes() == CONTENT
    with pytest.raises(HostError, match="File exists"):
        checkout.copy(source, target)
    assert target.read_bytes().startswith(b"changed")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["copy"]


def test_copy_to_a_missing_directory_leaves_nothing(cache: Cache, tmp_path: Path) -> None:
    source = cache.path(added(cache, b"x"))
    with pytest.raises(HostError, match="No such file or directory"):
        checkout.copy(source, tmp_path / "no" / "copy")
    assert not (tmp_path / "no").exists()


# -- eviction


@pytest.fixture
def aged(cache: Cache) -> Iterator[Callable[[bytes, float], Digest]]:
    def made(content: bytes, days: float) -> Digest:
        digest = added(cache, content)
        (entry,) = (one for one in cache.entries() if one.digest == digest)
        then = entry.used_at - days * 86_400
        record = cache.root / "records" / f"{digest.algorithm}-{digest.hexadecimal}.json"
        os.utime(record, (then, then))
        return digest

    yield made


def digests(cache: Cache) -> set[Digest]:
    return {entry.digest for entry in cache.entries()}


def test_old_entries_are_removed_unless_checked_out(
    cache: Cache, aged: Callable[[bytes, float], Digest], tmp_path: Path
) -> None:
    old, new, pinned, linked = (aged(b"%d" % n, 0 if n == 1 else 200) for n in range(4))
    cache.pin(pinned, "2-uid")
    checkout.link_or_copy(cache.path(linked), tmp_path / "link")
    assert [entry.digest for entry in evict(cache, dry_run=True).entries] == [old]
    assert digests(cache) == {old, new, pinned, linked}
    evict(cache)
    assert digests(cache) == {new, pinned, linked}
    cache.unpin(pinned, "2-uid")
    evict(cache)
    assert digests(cache) == {new, linked}


def test_longest_unused_entries_are_removed_first(
    cache: Cache, aged: Callable[[bytes, float], Digest]
) -> None:
    found = [aged(bytes([n]) * 10_000, 10 - n) for n in range(4)]
    size = next(iter(cache.entries())).size_bytes
    evict(cache, max_bytes=2 * size)
    assert digests(cache) == set(found[2:])
    assert cache.find(found[2])  # a use makes it the youngest
    evict(cache, max_bytes=size)
    assert digests(cache) == {found[2]}


def test_partial_download_in_progress_is_kept(cache: Cache) -> None:
    from rdd.host.locks import FileLock

    paths = [cache.partial("a"), cache.partial("b")]
    for path in paths:
        path.write_bytes(b"part")
        os.utime(path, (0, 0))
    lock = FileLock.try_acquire(paths[0].with_name(paths[0].name + ".lock"))
    assert lock is not None
    evict(cache)
    assert [path.exists() for path in paths] == [True, False]
    lock.release()


# -- archives


def test_entries_move_between_caches(cache: Cache, tmp_path: Path) -> None:
    one = added(cache, b"one", "https://files.example/one")
    two = added(cache, b"two")
    archive = tmp_path / "cache.tar"
    assert export_entries(cache.entries(), archive) == 2
    first = archive.read_bytes()
    export_entries(reversed(list(cache.entries())), archive)
    assert archive.read_bytes() == first
    other = Cache(tmp_path / "other")
    assert sorted(import_entries(other, archive)) == sorted([one, two])
    assert {entry.digest: entry.location for entry in other.entries()} == {
        one: "https://files.example/one",
        two: "",
    }
    assert len(import_entries(other, archive)) == 2  # again


def changed_archive(path: Path, change: Callable[[tarfile.TarInfo], None]) -> None:
    data = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=data, mode="w") as new:
        for member in old:
            content = old.extractfile(member)
            change(member)
            new.addfile(member, content)
    path.write_bytes(data.getvalue())


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b"no archive"), id="other file"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes().replace(b"CONTENT", b"changed")),
            id="content",
        ),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:3000]), id="truncated"),
        pytest.param(
            lambda path: changed_archive(
                path, lambda m: setattr(m, "name", m.name.replace("sha256/", "../sha256/"))
            ),
            id="name",
        ),
        pytest.param(
            lambda path: path.write_bytes(
                path.read_bytes().replace(b'"format": 1', b'"format": 9')
            ),
            id="format",
        ),
    ],
)
def test_damaged_archive_adds_nothing(
    cache: Cache, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    added(cache, b"CONTENT" * 1000)
    archive = tmp_path / "cache.tar"
    export_entries(cache.entries(), archive)
    damage(archive)
    other = Cache(tmp_path / "other")
    with pytest.raises(HostError):
        import_entries(other, archive)
    assert not list(other.entries())
    assert not list(tmp_path.glob("sha256*"))  # nothing beside the cache
