# SPDX-License-Identifier: Apache-2.0
"""urlmonitor: a URL is fetched when it is due, and its content kept."""

import errno
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.controller_world import controller_environment, eventually, gone, managed
from tests.origin import Origin, serving
from tests.runtime.runtime_world import World

from rdd.api import errors, timestamps
from rdd.api.types import Object
from rdd.controllers.resources.controller import urlmonitor
from rdd.controllers.resources.reasons import MONITOR_REASONS, REASONS
from rdd.fetch.cache import Cache
from rdd.host.errors import HostError
from rdd.kinds.urlmonitor import URLMonitor
from rdd.runtime import ReasonTable, conditions_of, find_condition, resource_of

MONITORS = resource_of(URLMonitor)


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with serving() as made:
        made.content = b"v1\n"
        yield made


@asynccontextmanager
async def monitoring(world: World, home: Path) -> AsyncIterator[Cache]:
    async with managed(world, urlmonitor(controller_environment(home))):
        yield Cache(home / ".cache" / "rdd" / "files")


async def monitor(world: World, url: str, *, name: str = "list", **spec: Any) -> Object:
    obj = {"metadata": {"name": name}, "spec": {"url": url, **spec}}
    return await world.client.create(MONITORS, obj)


def reason_is(reason: str) -> Any:
    return lambda obj: (find_condition(conditions_of(obj), "Ready") or {}).get("reason") == reason


def checked_after(time: str) -> Any:
    return lambda obj: (obj.get("status") or {}).get("lastCheck", "") > time


async def check_now(world: World, found: Object, **spec: Any) -> Object:
    """Request a check in the second after the last one; return the object after it."""
    last = found["status"]["lastCheck"]
    due = timestamps.text(timestamps.parse(last)[0] + 1)
    await world.client.patch(MONITORS, "list", {"spec": {"nextCheck": due, **spec}})
    return await eventually(world, MONITORS, "list", checked_after(last))


def refuse(*_: object) -> None:
    """Fail like a cache on a read-only file system, which root can write otherwise."""
    raise HostError.from_os("write", OSError(errno.EROFS, "Read-only file system"))


async def test_content_is_kept_and_a_change_of_it_is_recorded(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with monitoring(world, tmp_path) as cache:
        await monitor(world, origin.url, interval="2h")
        first = await eventually(world, MONITORS, "list", reason_is("Fetched"))
        status = first["status"]
        assert Path(status["localPath"]).read_bytes() == b"v1\n"  # noqa: ASYNC240
        assert status["digest"] == "sha256:" + hashlib.sha256(b"v1\n").hexdigest()
        assert (status["lastStatus"], status["etag"]) == (200, '"one"')
        assert status["lastChange"] == status["lastCheck"]
        due = timestamps.parse(status["nextCheck"])[0] - timestamps.parse(status["lastCheck"])[0]
        assert due == 7201

        same = await check_now(world, first)
        assert (same["status"]["lastStatus"], same["status"]["digest"]) == (304, status["digest"])
        assert same["status"]["lastChange"] == status["lastChange"]

        origin.content, origin.etag = b"v2\n", '"two"'
        changed = await check_now(world, same)
        assert changed["status"]["lastChange"] == changed["status"]["lastCheck"]
        assert Path(changed["status"]["localPath"]).read_bytes() == b"v2\n"  # noqa: ASYNC240
        pinned = [entry.path.read_bytes() for entry in cache.entries() if entry.pins]
        assert pinned == [b"v2\n"]

        await world.client.delete(MONITORS, "list")
        await gone(world, MONITORS, "list")
        assert [entry.pins for entry in cache.entries()] == [(), ()]


async def test_content_that_left_the_cache_is_fetched_again(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with monitoring(world, tmp_path):
        await monitor(world, origin.url)
        first = await eventually(world, MONITORS, "list", reason_is("Fetched"))
        Path(first["status"]["localPath"]).unlink()  # noqa: ASYNC240
        again = await check_now(world, first)
        assert again["status"]["lastStatus"] == 200
        assert again["status"]["lastChange"] == first["status"]["lastChange"]
        assert Path(again["status"]["localPath"]).read_bytes() == b"v1\n"  # noqa: ASYNC240


async def test_deleted_monitor_leaves_no_pin_although_its_status_has_none(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with monitoring(world, tmp_path) as cache:
        await monitor(world, origin.url)
        found = await eventually(world, MONITORS, "list", reason_is("Fetched"))
        status = {"digest": None, "localPath": None}
        await world.client.patch(MONITORS, "list", {"status": status}, subresource="status")
        assert [entry.pins for entry in cache.entries()] == [(f"7-{found['metadata']['uid']}",)]
        await world.client.delete(MONITORS, "list")
        await gone(world, MONITORS, "list")
        assert [entry.pins for entry in cache.entries()] == [()]


async def test_read_only_cache_is_a_failure(
    world: World, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache, "pin", refuse)
    async with monitoring(world, tmp_path):
        await monitor(world, origin.url)
        found = await eventually(world, MONITORS, "list", reason_is("NotKept"))
        assert "localPath" not in found["status"]


@pytest.mark.parametrize(
    ("broken", "reason", "status"),
    [
        pytest.param({"status": 404}, "NotFound", 404, id="missing"),
        pytest.param({"status": 503}, "ServerError", 503, id="server"),
        pytest.param({"content": bytes((4 << 20) + 1)}, "TooLarge", None, id="size"),
        pytest.param({"cut_after": 1}, "Unreachable", None, id="lost"),
    ],
)
async def test_failure_keeps_the_content_and_is_retried_later(
    world: World,
    origin: Origin,
    tmp_path: Path,
    broken: dict[str, Any],
    reason: str,
    status: int | None,
) -> None:
    async with monitoring(world, tmp_path):
        await monitor(world, origin.url)
        first = await eventually(world, MONITORS, "list", reason_is("Fetched"))
        origin.etag = '"two"'
        for name, value in broken.items():
            setattr(origin, name, value)
        failed = await check_now(world, first)
        assert reason_is(reason)(failed)
        assert failed["status"].get("lastStatus") == status
        assert failed["status"]["digest"] == first["status"]["digest"]
        assert Path(failed["status"]["localPath"]).read_bytes() == b"v1\n"  # noqa: ASYNC240
        times = [timestamps.parse(failed["status"][key])[0] for key in ("lastCheck", "nextCheck")]
        assert times[1] - times[0] == 61


async def test_restart_causes_no_check(world: World, origin: Origin, tmp_path: Path) -> None:
    async with monitoring(world, tmp_path):
        await monitor(world, origin.url)
        first = await eventually(world, MONITORS, "list", reason_is("Fetched"))
    async with monitoring(world, tmp_path):
        await monitor(world, origin.url, name="other")
        await eventually(world, MONITORS, "other", reason_is("Fetched"))
        found = await world.client.get(MONITORS, "list")
    assert found["status"]["lastCheck"] == first["status"]["lastCheck"]
    assert origin.requests == ["GET", "GET"]


async def test_suspended_monitor_sends_nothing(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with monitoring(world, tmp_path):
        await monitor(world, origin.url, suspended=True)
        await monitor(world, origin.url, name="other", method="POST", body="question")
        other = await eventually(world, MONITORS, "other", reason_is("Fetched"))
        assert other["status"]["localPath"]
        found = await world.client.get(MONITORS, "list")
        assert not found.get("status")
    assert origin.requests == ["POST"]


async def test_head_records_changes_without_content(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    async with monitoring(world, tmp_path) as cache:
        await monitor(world, origin.url, method="HEAD")
        first = await eventually(world, MONITORS, "list", reason_is("Fetched"))
        origin.etag = '"two"'
        second = await check_now(world, first)
        assert second["status"]["lastChange"] == second["status"]["lastCheck"]
        assert "localPath" not in second["status"]
        assert not list(cache.entries())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"url": "ftp://host/x"}, "spec.url"),
        ({"url": "https://host/x", "interval": "59s"}, "between 1m and 8760h"),
        ({"url": "https://host/x", "interval": "8761h"}, "between 1m and 8760h"),
        ({"url": "https://host/x", "interval": "daily"}, "spec.interval"),
        ({"url": "https://host/x", "body": "b"}, "only the method POST has a body"),
        ({"url": "https://host/x", "method": "DELETE"}, "spec.method"),
        ({"url": "https://host/x", "method": "POST", "body": "b" * 65537}, "spec.body"),
        ({"url": "https://host/x", "nextCheck": "tomorrow"}, "spec.nextCheck"),
    ],
)
async def test_rejects_invalid_monitor(
    world: World, tmp_path: Path, spec: dict[str, Any], message: str
) -> None:
    async with monitoring(world, tmp_path):
        with pytest.raises(errors.Invalid, match=message):
            await monitor(world, **spec)


def test_page_lists_every_reason_of_a_monitor() -> None:
    page = (Path(__file__).parents[3] / "docs" / "resources.md").read_text()
    own = [row for row in MONITOR_REASONS if row not in tuple(REASONS)]
    assert ReasonTable(*own).markdown().rstrip("\n") in page
    assert {row.reason for row in MONITOR_REASONS} - {row.reason for row in REASONS} == {
        "Fetched",
        "NotKept",
    }
