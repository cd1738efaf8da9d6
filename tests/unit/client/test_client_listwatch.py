# SPDX-License-Identifier: Apache-2.0
"""List-and-watch: the event stream when lists fail and watches end."""

from contextlib import aclosing

import pytest
from tests.unit.client.client_world import Pauses, Scripted, config_map, failed, line, listed

from rdd.api import errors
from rdd.client import Client, Unreachable, listwatch
from rdd.client.resources import CONFIG_MAPS


async def seen(transport: Scripted, count: int, pauses: Pauses | None = None) -> list[str]:
    """Return the first events as texts: type and name."""
    texts: list[str] = []
    changes = Client(transport, sleep=pauses or Pauses()).list_and_watch(CONFIG_MAPS)
    async with aclosing(changes):
        async for event in changes:
            name = event.object.get("metadata", {}).get("name", "")
            texts.append(f"{event.type} {name}".strip())
            if len(texts) == count:
                break
    return texts


async def test_list_is_followed_by_changes() -> None:
    transport = Scripted(
        listed(5, config_map("a", 3)),
        [line("MODIFIED", config_map("a", 6)), line("DELETED", config_map("a", 7))],
    )
    assert await seen(transport, 5) == ["RELIST", "ADDED a", "SYNCED", "MODIFIED a", "DELETED a"]
    assert transport.calls[1].query["resourceVersion"] == ["5"]
    assert transport.calls[1].query["allowWatchBookmarks"] == ["true"]


async def test_pages_are_joined() -> None:
    transport = Scripted(
        listed(5, config_map("a", 3), continue_="next"), listed(5, config_map("b", 4))
    )
    assert await seen(transport, 4) == ["RELIST", "ADDED a", "ADDED b", "SYNCED"]
    assert transport.calls[1].query["continue"] == ["next"]


async def test_ended_watch_resumes_after_last_event_or_bookmark() -> None:
    bookmark = line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    transport = Scripted(
        listed(5),
        [line("ADDED", config_map("a", 6))],
        [bookmark],
        Unreachable("gone"),
        [line("ADDED", config_map("b", 10))],
    )
    assert await seen(transport, 4) == ["RELIST", "SYNCED", "ADDED a", "ADDED b"]
    versions = [call.query["resourceVersion"] for call in transport.calls[1:]]
    assert versions == [["5"], ["6"], ["9"], ["9"]]


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(failed(errors.Expired("too old")), id="rejected"),
        pytest.param([line("ERROR", errors.Expired("too old").to_status())], id="in the stream"),
        pytest.param([line("ERROR", errors.Gone("gone").to_status())], id="gone"),
    ],
)
async def test_expired_watch_lists_again(expired: object) -> None:
    transport = Scripted(listed(5), expired, listed(8, config_map("a", 7)))  # type: ignore[arg-type]
    assert await seen(transport, 5) == ["RELIST", "SYNCED", "RELIST", "ADDED a", "SYNCED"]


async def test_list_that_fails_between_pages_is_restarted() -> None:
    transport = Scripted(
        listed(5, config_map("a", 3), continue_="next"),
        failed(errors.InternalError("broken")),
        listed(6, config_map("b", 6)),
    )
    assert await seen(transport, 5) == ["RELIST", "ADDED a", "RELIST", "ADDED b", "SYNCED"]


async def test_failures_are_retried_with_exponential_backoff() -> None:
    pauses = Pauses()
    refusals = [failed(errors.Forbidden("no"))] * 12
    transport = Scripted(*refusals, listed(5))
    assert (await seen(transport, 14, pauses))[-1] == "SYNCED"
    assert pauses.taken[:5] == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert pauses.taken[-1] == listwatch.LONGEST_DELAY_S


async def test_events_reset_the_backoff() -> None:
    pauses = Pauses()
    transport = Scripted(
        listed(5), [], [], [line("ADDED", config_map("a", 6))], [line("ADDED", config_map("b", 7))]
    )
    await seen(transport, 4, pauses)
    assert len(pauses.taken) == 3
    assert pauses.taken[1:] == [0.2, 0.1]


async def test_resource_that_is_not_served_raises_not_found() -> None:
    with pytest.raises(errors.NotFound):
        await seen(Scripted(failed(errors.NotFound.resource())), 2)


async def test_filter_gets_raw_lines_but_no_bookmarks() -> None:
    bookmark = line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    transport = Scripted(
        listed(5),
        [line("ADDED", config_map("a", 6)), line("ADDED", config_map("b", 7)), bookmark],
        [line("ADDED", config_map("b", 10))],
    )
    asked: list[str] = []

    def keep(type_: str, body: bytes) -> bool:
        asked.append(type_)
        return b'"b"' in body

    changes = Client(transport, sleep=Pauses()).list_and_watch(CONFIG_MAPS, keep=keep)
    names = []
    async with aclosing(changes):
        async for event in changes:
            if event.type == "ADDED":
                names.append(event.object["metadata"]["name"])
                if len(names) == 2:
                    break
    assert names == ["b", "b"]
    assert transport.calls[2].query["resourceVersion"] == ["9"]
