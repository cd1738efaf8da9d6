# SPDX-License-Identifier: Apache-2.0
"""From where files may be fetched: URLs, mirrors, redirects, checksums, local files."""

from pathlib import Path

import pytest
from tests.origin import DIGEST, Origin, serving

from rdd.fetch.cache import Cache
from rdd.fetch.failures import FetchError, FetchFailure
from rdd.fetch.fetching import fetch, published_digest, remote_size
from rdd.fetch.network import Network
from rdd.fetch.sources import Sources, UrlPattern


def network(*patterns: str, mirror: str = "", **members: object) -> Network:
    parsed = tuple(map(UrlPattern.parse, patterns))
    sources = Sources(parsed, origin="FILE", **members)  # type: ignore[arg-type]
    return Network(mirror=mirror, sources=sources)


@pytest.mark.parametrize(
    ("pattern", "url", "is_allowed"),
    [
        ("https://h/a/*", "https://h/a/b?c=d", True),
        ("https://h/a/*", "https://H:443/a/b", True),
        ("https://h/a/*", "https://h./a/b", True),
        ("https://h/a/*", "http://h/a/b", False),
        ("https://h/a/*", "https://h:444/a/b", False),
        ("https://h/a/*", "https://h.evil/a/b", False),
        ("https://h/a/*", "https://h@evil/a/b", False),
        ("https://h/a/*", "https://h/b", False),
        ("https://h/a/*", "https://h/a/../b", False),
        ("https://h/a/*", "https://h/a/%2e%2e/b", False),
        ("https://h/a/*", "https://h/a/%252e%252e/b", False),
        ("https://h/a/*", "https://h/a\\..\\b", False),
        ("https://h/a/*", "https://h/a/b\n", False),
        ("https://h/a/*", "https://h:x/a/b", False),
        ("https://*.h.com/*", "https://a.b.h.com/x", True),
        ("https://*.h.com/*", "https://h.com/x", False),
        ("https://*.h.com/*", "https://evilh.com/x", False),
        ("file:///opt/*", "/opt/image", True),
        ("file:///opt/*", "file:///opt/image", True),
        ("file:///opt/*", "/opt/../home/image", False),
        ("https://h/*", "/opt/image", False),
    ],
)
def test_pattern_matches_what_it_means(pattern: str, url: str, is_allowed: bool) -> None:
    problem = network(pattern).sources.url_problem(url)
    assert (not problem) == is_allowed
    if problem:
        assert f"by resource.urls of FILE: {pattern}" in problem


async def test_only_allowed_urls_are_requested(origin: Origin, cache: Cache) -> None:
    with pytest.raises(FetchError) as caught:
        await fetch(origin.url, DIGEST, cache=cache, report=print, network=network("https://h/*"))
    assert caught.value.failure is FetchFailure.NOT_ALLOWED
    assert origin.requests == []
    allowed = network(f"{origin.base}/*")
    assert str(await fetch(origin.url, DIGEST, cache=cache, report=print, network=allowed))


async def test_redirects_are_checked(origin: Origin, cache: Cache) -> None:
    async with serving() as other:
        for target in (f"{other.base}/file", f"{origin.base}/private/file"):
            origin.redirect = target
            limited = network(f"{origin.base}/public/*")
            url = f"{origin.base}/public/file"
            with pytest.raises(FetchError, match=r"is not allowed by resource\.urls") as caught:
                await fetch(url, DIGEST, cache=cache, report=print, network=limited)
            assert caught.value.failure is FetchFailure.NOT_ALLOWED
            with pytest.raises(FetchError, match="is not allowed"):
                await published_digest(url, "file", network=limited)
            assert await remote_size(url, network=limited) is None
        assert other.requests == []
    origin.redirect = "/public/moved"
    url = f"{origin.base}/public/file"
    assert await fetch(url, DIGEST, cache=cache, report=print, network=limited)


async def test_mirror_must_be_allowed(origin: Origin, cache: Cache) -> None:
    url = "https://publisher.example.com/file"
    refused = network("https://publisher.example.com/*", mirror=origin.base)
    with pytest.raises(FetchError, match="is not allowed"):
        await fetch(url, DIGEST, cache=cache, report=print, network=refused)
    allowed = network(f"{origin.base}/*", mirror=origin.base)
    assert await fetch(url, DIGEST, cache=cache, report=print, network=allowed)


async def test_cached_file_needs_an_allowed_source(origin: Origin, cache: Cache) -> None:
    await fetch(origin.url, DIGEST, cache=cache, report=print)
    with pytest.raises(FetchError, match="is not allowed"):
        await fetch(origin.url, DIGEST, cache=cache, report=print, network=network("https://h/*"))


async def test_local_files_are_sources_too(tmp_path: Path, cache: Cache) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"disk")
    for location in (str(path), f"file://{path}"):
        with pytest.raises(FetchError, match="is not allowed"):
            await fetch(location, "", cache=cache, report=print, network=network("https://h/*"))
        allowed = network(f"file://{tmp_path}/*")
        assert await fetch(location, "", cache=cache, report=print, network=allowed)


async def test_digests_can_be_demanded(origin: Origin, cache: Cache) -> None:
    everything = f"{origin.base}/*"
    demanded = network(everything, requires_digest=True)
    with pytest.raises(FetchError, match=r"needs a digest by resource\.requireDigest of FILE"):
        await fetch(origin.url, "", cache=cache, report=print, network=demanded)
    only = network(everything, digests={origin.url: DIGEST})
    with pytest.raises(FetchError, match=f"must have the digest {DIGEST}"):
        other = "sha256:" + "0" * 64
        await fetch(origin.url, other, cache=cache, report=print, network=only)
    for strict in (demanded, only):
        found = await fetch(origin.url, DIGEST, cache=cache, report=print, network=strict)
        assert str(found) == DIGEST
