# SPDX-License-Identifier: Apache-2.0
"""resource: files are fetched for Checkouts, verified, and complete or missing."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.controllers.controller_world import controller_environment, eventually, gone, managed
from tests.origin import CONTENT, DIGEST, Origin, serving
from tests.runtime.runtime_world import World, until

from rdd.api import errors
from rdd.api.types import Object
from rdd.controllers.resources.checkouts import CheckoutReconciler
from rdd.controllers.resources.controller import resource
from rdd.controllers.resources.reasons import REASONS
from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.kinds.resource import Checkout, Resource
from rdd.runtime import conditions_of, find_condition, resource_of

RESOURCES, CHECKOUTS = resource_of(Resource), resource_of(Checkout)


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with serving() as made:
        yield made


@asynccontextmanager
async def fetching(world: World, home: Path) -> AsyncIterator[Cache]:
    async with managed(world, resource(controller_environment(home))):
        yield Cache(home / ".cache" / "rdd" / "files")


async def offer(world: World, url: str, *, name: str = "tool", **spec: Any) -> Object:
    found = spec or {"digest": DIGEST}
    return await world.client.create(
        RESOURCES, {"metadata": {"name": name}, "spec": {"url": url, **found}}
    )


async def check_out(world: World, name: str = "mine", **spec: Any) -> Object:
    wanted = {"resource": "tool", "readonly": True, **spec}
    return await world.client.create(
        CHECKOUTS, {"metadata": {"name": name, "namespace": "default"}, "spec": wanted}
    )


def status_is(status: str) -> Any:
    return lambda obj: (obj.get("status") or {}).get("status") == status


def reason_is(reason: str) -> Any:
    return lambda obj: (find_condition(conditions_of(obj), "Ready") or {}).get("reason") == reason


def content_of(path: Path) -> bytes:
    return path.read_bytes()


async def test_checkout_fetches_the_file_once_and_keeps_it(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with fetching(world, tmp_path) as cache:
        await offer(world, origin.url)
        await eventually(world, RESOURCES, "tool", status_is("available"))
        await check_out(world)
        found = await eventually(world, CHECKOUTS, "mine", reason_is("CheckedOut"))
        path = Path(found["status"]["localPath"])
        assert content_of(path) == CONTENT
        assert found["status"]["digest"] == DIGEST
        assert "progress" not in found["status"]
        cached = await eventually(world, RESOURCES, "tool", status_is("cached"))
        assert cached["status"]["size"] == len(CONTENT)
        (entry,) = cache.entries()
        assert entry.pins == (f"7-{found['metadata']['uid']}",)
        await check_out(world, "second", destination=str(tmp_path / "link"))
        await eventually(world, CHECKOUTS, "second", reason_is("CheckedOut"))
        assert (tmp_path / "link").samefile(path)
        await world.client.delete(CHECKOUTS, "mine", namespace="default")
        await gone(world, CHECKOUTS, "mine")
        (entry,) = cache.entries()
        assert entry.pins == ()
    assert origin.requests == ["GET"]


async def test_writable_checkout_is_a_file_of_its_own(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with fetching(world, tmp_path) as cache:
        await offer(world, origin.url)
        target = tmp_path / "copy"
        await check_out(world, destination=str(target), readonly=False)
        await eventually(world, CHECKOUTS, "mine", reason_is("CheckedOut"))
        target.write_bytes(b"changed")
        assert cache.path(Digest.parse(DIGEST)).read_bytes() == CONTENT


async def test_published_checksum_is_pinned_at_the_first_fetch(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    origin.texts["/sha256sum.txt"] = f"{digest}  disk.img\n"
    async with fetching(world, tmp_path):
        await offer(world, origin.url, checksumURL=f"{origin.base}/sha256sum.txt")
        await check_out(world)
        await eventually(world, CHECKOUTS, "mine", reason_is("CheckedOut"))
        found = await world.client.get(RESOURCES, "tool")
        assert found["status"]["digest"] == DIGEST
        # Another file under the same URL is not what was pinned.
        origin.texts["/sha256sum.txt"] = f"{'0' * 64}  disk.img\n"
        await check_out(world, "again")
        await eventually(world, CHECKOUTS, "again", reason_is("CheckedOut"))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"status": 404}, "NotFound"),
        ({"status": 407}, "ProxyAuthenticationRequired"),
        ({"content": b"wrong"}, "ChecksumMismatch"),
    ],
    ids=["missing", "proxy", "wrong"],
)
async def test_failure_is_a_condition_with_its_cause(
    world: World, origin: Origin, tmp_path: Path, broken: dict[str, Any], reason: str
) -> None:
    for name, value in broken.items():
        setattr(origin, name, value)
    async with fetching(world, tmp_path) as cache:
        await offer(world, origin.url)
        await check_out(world)
        found = await eventually(world, CHECKOUTS, "mine", reason_is(reason))
        assert "localPath" not in found["status"]
        assert not list(cache.entries())


async def test_file_needs_the_signature_of_its_resource(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    key = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, content in (("/right", CONTENT), ("/wrong", b"another file")):
        signature = private.sign(content, ec.ECDSA(SHA256()))
        origin.texts[name] = base64.b64encode(signature).decode()
    async with fetching(world, tmp_path) as cache:
        for name, reason in (("wrong", "SignatureMismatch"), ("right", "CheckedOut")):
            wanted = {"url": f"{origin.base}/{name}", "key": key.decode()}
            await offer(world, origin.url, name=name, digest=DIGEST, signature=wanted)
            target = tmp_path / name
            await check_out(world, name, resource=name, destination=str(target), readonly=False)
            await eventually(world, CHECKOUTS, name, reason_is(reason))
            assert target.exists() == (name == "right")
            assert bool(list(cache.entries())) == (name == "right")
        with pytest.raises(errors.Invalid, match="signature of a Resource cannot change"):
            await world.client.patch(RESOURCES, "right", {"spec": {"signature": None}})


async def test_transient_failure_is_retried(
    world: World, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckoutReconciler, "RETRY_S", (0.01, 120.0))
    origin.status = 503
    async with fetching(world, tmp_path):
        await offer(world, origin.url)
        await check_out(world)
        await eventually(world, CHECKOUTS, "mine", reason_is("ServerError"))
        origin.status = 200
        await eventually(world, CHECKOUTS, "mine", reason_is("CheckedOut"))


async def test_checkout_waits_for_its_resource(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with fetching(world, tmp_path):
        await check_out(world)
        await eventually(world, CHECKOUTS, "mine", reason_is("ResourceMissing"))
        await offer(world, origin.url)
        await eventually(world, CHECKOUTS, "mine", reason_is("CheckedOut"))


async def test_deleting_a_checkout_cancels_the_fetch_and_the_next_one_resumes(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    origin.gate = asyncio.Event()
    async with fetching(world, tmp_path) as cache:
        await offer(world, origin.url)
        await check_out(world)
        found = await eventually(
            world, CHECKOUTS, "mine", lambda o: (o.get("status") or {}).get("totalBytes")
        )
        assert found["status"]["progress"].startswith("Downloading disk.img")
        assert found["status"]["totalBytes"] == len(CONTENT)
        await until(lambda: any(path.stat().st_size >= 100_000 for path in cache.partial_files()))
        await world.client.delete(CHECKOUTS, "mine", namespace="default")
        await gone(world, CHECKOUTS, "mine")
        origin.gate.set()
        origin.gate = None
        await check_out(world, "next")
        await eventually(world, CHECKOUTS, "next", reason_is("CheckedOut"))
    assert origin.requests[-1].startswith("GET bytes=")


async def test_existing_destination_is_not_replaced(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    target = tmp_path / "mine"
    target.write_text("of the user")
    async with fetching(world, tmp_path):
        await offer(world, origin.url)
        for name, readonly in (("link", True), ("copy", False)):
            await check_out(world, name, destination=str(target), readonly=readonly)
            await eventually(world, CHECKOUTS, name, reason_is("PlacementFailed"))
    assert target.read_text() == "of the user"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"url": "https://files.example/x"}, "a digest or a checksumURL is required"),
        ({"url": "ftp://files.example/x", "digest": DIGEST}, "spec.url"),
        ({"url": "https://files.example/x", "digest": "md5:0"}, "spec.digest"),
    ],
    ids=["checksum", "url", "digest"],
)
async def test_invalid_resource_is_rejected(
    world: World, tmp_path: Path, spec: Object, message: str
) -> None:
    async with fetching(world, tmp_path):
        with pytest.raises(errors.Invalid, match=message):
            await world.client.create(RESOURCES, {"metadata": {"name": "x"}, "spec": spec})


async def test_checkout_of_the_cached_file_must_be_readonly(world: World, tmp_path: Path) -> None:
    async with fetching(world, tmp_path):
        with pytest.raises(errors.Invalid, match="must be readonly"):
            await check_out(world, readonly=False)
        with pytest.raises(errors.Invalid, match=r"spec\.destination"):
            await check_out(world, destination="relative")
        await check_out(world)
        with pytest.raises(errors.Invalid, match="a Checkout cannot change"):
            patch = {"spec": {"resource": "other"}}
            await world.client.patch(CHECKOUTS, "mine", patch, namespace="default")


def test_page_lists_every_reason() -> None:
    page = (Path(__file__).parents[3] / "docs" / "resources.md").read_text()
    assert REASONS.markdown().rstrip("\n") in page
