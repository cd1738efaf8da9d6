# SPDX-License-Identifier: Apache-2.0
"""What must hold of server-side apply whatever is applied, and fuzzing of all patches.

The corpus holds inputs that once mattered; under `make soak` hypothesis looks
for more of them for minutes instead of seconds.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import errors, fieldset, jsonpatch, managedfields, mergepatch, strategic
from rdd.api.apply import apply
from rdd.api.types import Object
from rdd.schema.node import compile_node

NOW, LATER = "2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z"
EXAMPLES = max(120, settings().max_examples)
CORPUS = Path(__file__).parents[2] / "data" / "fuzz"
ITEM = {
    "type": "object",
    "properties": {
        "k": {"type": "string"},
        "v": {"type": "integer"},
        "n": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
NODE = compile_node(
    {
        "type": "object",
        "properties": {
            "s": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "integer"},
                    "set": {
                        "type": "array",
                        "items": {"type": "string"},
                        "x-kubernetes-list-type": "set",
                        "x-kubernetes-patch-strategy": "merge",
                    },
                    "map": {
                        "type": "array",
                        "items": ITEM,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "x-kubernetes-patch-strategy": "merge",
                        "x-kubernetes-patch-merge-key": "k",
                    },
                    "atomic": {"type": "array", "items": {"type": "integer"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "d": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
)

names = st.sampled_from(["p", "q", "r"])
texts = st.sampled_from(["x", "y", ""])
strings = st.dictionaries(names, texts, max_size=3)
items = st.lists(
    st.fixed_dictionaries({"k": names}, optional={"v": st.integers(0, 2), "n": strings}),
    max_size=3,
    unique_by=lambda i: i["k"],
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "a": texts,
        "b": st.integers(0, 2),
        "set": st.lists(names, max_size=3, unique=True),
        "map": items,
        "atomic": st.lists(st.integers(0, 2), max_size=2),
        "free": st.dictionaries(names, st.one_of(texts, strings, st.lists(texts)), max_size=2),
    },
)
configs = st.fixed_dictionaries({}, optional={"s": specs, "d": strings}).map(
    lambda members: {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, **members}
)
managers = st.sampled_from(["one", "two"])


def solid(value: Any) -> Any:
    """A configuration without empty objects and lists.

    An empty list claims nothing, and emptying an object leaves null, which
    decoding drops; applying them again differs, in Kubernetes as here.
    """
    if isinstance(value, dict):
        members = {k: solid(v) for k, v in value.items()}
        return {k: v for k, v in members.items() if v not in ({}, [])}
    return [solid(v) for v in value] if isinstance(value, list) else value


# Who claims nothing is not tracked, and what nobody tracks gets an owner by the next apply.
solid_configs = configs.map(solid).filter(lambda config: len(config) > 3)


def applied(
    live: Object | None, manager: str, patch: Object, *, force: bool, now: str = NOW
) -> Object:
    before = copy.deepcopy((live, patch))
    new = apply(
        live=live, patch=patch, node=NODE, manager=manager, api_version="v1", force=force, now=now
    )
    assert (live, patch) == before
    new = copy.deepcopy(new)
    new["metadata"]["uid"] = "u"
    return new


@st.composite
def histories(draw: st.DrawFn) -> Object:
    """An object as some applies and updates leave it."""
    live: Object | None = None
    for _ in range(draw(st.integers(1, 4))):
        config, manager = draw(configs), draw(managers)
        if draw(st.booleans()):
            live = applied(live, manager, config, force=True)
        else:
            new: Object = copy.deepcopy(config)
            managedfields.update(
                live=live, new=new, node=NODE, manager=manager, api_version="v1", now=NOW
            )
            new["metadata"]["uid"] = "u"
            live = new
    assert live is not None
    return live


def contains(value: Any, config: Any) -> bool:
    """Whether everything a configuration says is in a value."""
    if isinstance(config, dict) and isinstance(value, dict):
        return all(k in value and contains(value[k], v) for k, v in config.items())
    if isinstance(config, list) and config and isinstance(config[0], dict):
        by_key = {i["k"]: i for i in value or []}
        return all(contains(by_key.get(i["k"]), i) for i in config)
    if isinstance(config, list) and isinstance(value, list):
        return set(map(str, config)) <= set(map(str, value))
    return config == value or (not config and not value)


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), solid_configs, managers)
def test_forced_apply_wins_and_is_idempotent(live: Object, config: Object, manager: str) -> None:
    once = applied(live, manager, config, force=True, now=LATER)
    assert contains(once, config)
    assert applied(once, manager, config, force=False, now="2024-01-01T00:00:02Z") == once


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), configs, managers)
def test_apply_without_force_gives_the_forced_result_or_a_conflict(
    live: Object, config: Object, manager: str
) -> None:
    forced = applied(live, manager, config, force=True)
    try:
        assert applied(live, manager, config, force=False) == forced
    except errors.Conflict as e:
        assert e.details is not None
        assert len(e.details["causes"]) >= 1


@settings(max_examples=EXAMPLES, deadline=None)
@given(specs, strings)
def test_managers_of_disjoint_fields_never_conflict(spec: Object, data: dict[str, str]) -> None:
    base = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}}
    one, two = {**base, "s": spec}, {**base, "d": data}
    live = applied(None, "one", one, force=False)
    live = applied(live, "two", two, force=False)
    live = applied(live, "one", one, force=False)
    live = applied(live, "two", base, force=False)
    assert not live.get("d")
    assert contains(live, one)


@settings(max_examples=EXAMPLES, deadline=None)
@given(configs)
def test_applying_and_dropping_everything_leaves_nothing(config: Object) -> None:
    live = applied(None, "one", config, force=False)
    bare = {k: config[k] for k in ("apiVersion", "kind", "metadata")}
    after = applied(live, "one", bare, force=False)
    assert all(e["manager"] != "one" for e in after["metadata"].get("managedFields", []))
    assert not [k for k in ("s", "d") if not _is_hollow(after.get(k))]


def _is_hollow(value: Any) -> bool:
    """Nothing, or only lists nobody owns (applying an empty list claims nothing)."""
    if isinstance(value, dict):
        return all(map(_is_hollow, value.values()))
    return not value


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), configs, managers)
def test_updater_owns_all_changes_and_removed_fields_have_no_owner(
    live: Object, config: Object, manager: str
) -> None:
    new = copy.deepcopy(config)
    managedfields.update(
        live=live, new=new, node=NODE, manager=manager, api_version="v1", now=LATER
    )
    entries = new["metadata"].get("managedFields", [])
    for entry in entries:
        assert entry["fieldsV1"]
        assert fieldset.decode(entry["fieldsV1"]) == entry["fieldsV1"]
    again = {**copy.deepcopy(config), "metadata": {"name": "a"}}
    managedfields.update(
        live={**new, "metadata": {**new["metadata"], "uid": "u"}},
        new=again, node=NODE, manager="three", api_version="v1", now=LATER,
    )  # fmt: skip
    assert again["metadata"].get("managedFields", []) == entries


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(-1, 1), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["s", "d", "a", "set", "map", "k", "free", "metadata", "finalizers", "labels",
                 "managedFields", "op", "path", "from", "value", "$patch", "$retainKeys",
                 "$setElementOrder/set", "$setElementOrder/map", "$deleteFromPrimitiveList/set"]
            ),
            inner,
            max_size=4,
        ),
        st.sampled_from(["replace", "delete", "/s/a", "/s/set/-", "add", "remove", "test"]),
    ),
    max_leaves=12,
)  # fmt: skip


def try_everything(live: Object, patch: Any) -> None:
    """Nothing but API errors may come out, and inputs stay as they are."""
    before = copy.deepcopy((live, patch))
    for attempt in (
        lambda: jsonpatch.apply_json_patch(live, patch),
        lambda: jsonpatch.apply_json_patch(live, patch, strict=False),
        lambda: mergepatch.apply_merge_patch(live, patch),
        lambda: strategic.apply_strategic_patch(live, patch, NODE),
        lambda: _apply(live, patch, "kubectl"),
        lambda: _apply(None, patch, "one"),
        lambda: _update(live, mergepatch.apply_merge_patch(live, patch)),
    ):
        try:
            attempt()
        except errors.ApiError:
            pass
        assert (live, patch) == before


def _apply(live: Object | None, patch: Any, manager: str) -> None:
    if isinstance(patch, dict):
        patch = {"apiVersion": "v1", "kind": "K", **patch}
    apply(live=live, patch=patch, node=NODE, manager=manager, api_version="v1", now=LATER)


def _update(live: Object, new: Any) -> None:
    if isinstance(new.get("metadata"), dict):
        managedfields.update(
            live=live, new=dict(new, metadata=dict(new["metadata"])), node=NODE, manager="m",
            api_version="v1", now=LATER,
        )  # fmt: skip


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(histories(), anything)
def test_no_patch_breaks_the_server(live: Object, patch: Any) -> None:
    try_everything(live, patch)
    if isinstance(patch, dict):
        try_everything(live, {"s": patch, "metadata": {"name": "a"}})
    try_everything(live, [patch])


@pytest.mark.parametrize("path", sorted(CORPUS.glob("patch-*.json")), ids=lambda p: p.stem)
def test_corpus_does_not_break_the_server(path: Path) -> None:
    case = json.loads(path.read_text())
    try_everything(case["live"], case["patch"])
