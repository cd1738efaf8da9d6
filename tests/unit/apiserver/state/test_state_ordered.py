# SPDX-License-Identifier: Apache-2.0
"""The order of a resource's objects, kept up to date block by block."""

import random

import pytest

from rdd.apiserver.state import ordered
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.state.ordered import OrderedEntries, bounds, position


def entry(namespace: str, name: str, revision: int = 1) -> CacheEntry:
    return CacheEntry(namespace, name, revision, b"")


def places(entries: list[CacheEntry]) -> list[str]:
    return [position(e) for e in entries]


@pytest.mark.parametrize("seed", range(5))
def test_random_changes_give_the_same_order_as_a_sort(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(ordered, "MAX_BLOCK", 4)
    choose = random.Random(seed)
    kept: dict[str, CacheEntry] = {}
    entries = OrderedEntries()
    for revision in range(600):
        one = entry(choose.choice(["", "a", "a-b", "b"]), f"n{choose.randrange(60)}", revision)
        if position(one) in kept and choose.random() < 0.5:
            entries.remove(kept.pop(position(one)))
        else:
            kept[position(one)] = one
            entries.put(one)
        wanted = [kept[place] for place in sorted(kept)]
        assert entries.page(*bounds(None)) == wanted
        for namespace in ("", "a", "a-b", "b", "c"):
            low, high = bounds(namespace)
            inside = [e for e in wanted if e.namespace == namespace]
            assert entries.page(low, high) == inside
            assert entries.count(low, high) == len(inside)
            start = f"{namespace}/n3"
            rest = [e for e in inside if position(e) >= start]
            assert entries.page(start, high, 2) == rest[:2]
            assert entries.count(start, high) == len(rest)


def test_a_write_moves_no_more_than_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = OrderedEntries()
    entries.extend([entry("ns", f"n{i:06}") for i in range(100_000)])
    compared = 0

    def counted(one: CacheEntry) -> str:
        nonlocal compared
        compared += 1
        return position(one)

    monkeypatch.setattr(ordered, "position", counted)
    entries.put(entry("ns", "n050000x"))
    assert places(entries.page("ns/n050000", "ns0", 3)) == [
        "ns/n050000",
        "ns/n050000x",
        "ns/n050001",
    ]
    assert compared < 100


def test_entries_loaded_in_order_are_found() -> None:
    entries = OrderedEntries()
    entries.extend([entry("a", f"{i:05}") for i in range(3000)])
    entries.extend([entry("b", f"{i:05}") for i in range(10)])
    assert entries.count(*bounds("a")) == 3000
    assert places(entries.page("a/02999", bounds(None)[1], 2)) == ["a/02999", "b/00000"]


@pytest.mark.parametrize(
    ("body", "name", "labels"),
    [
        pytest.param(b'"metadata":{"name":"a","uid":"u"}}', "a", {}, id="none"),
        pytest.param(
            b'"metadata":{"name":"a","uid":"u","labels":{"x":"1","y":""}},"data":{}}',
            "a",
            {"x": "1", "y": ""},
            id="some",
        ),
        pytest.param(
            b'"metadata":{"name":"a","uid":"u"},"labels":{"x":"1"}}', "a", {}, id="of the object"
        ),
        pytest.param(
            b'"metadata":{"name":"a","annotations":{"labels":"{"}},"spec":{"labels":{"x":"1"}}}',
            "a",
            {},
            id="of a template",
        ),
        pytest.param(
            b'"metadata":{"name":"{\\"labels\\":{","uid":"u","labels":{"x":"1"}}}',
            '{"labels":{',
            {"x": "1"},
            id="behind a name with braces",
        ),
    ],
)
def test_labels_are_those_of_the_metadata(body: bytes, name: str, labels: dict[str, str]) -> None:
    assert CacheEntry("", name, 1, body).labels == labels
