# SPDX-License-Identifier: Apache-2.0
"""From changes to keys: predicates, owners, mappings."""

from typing import Any

import pytest

from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from rdd.runtime import ObjectKey, predicates
from rdd.runtime.informer import Change
from rdd.runtime.predicates import Predicate
from rdd.runtime.sources import maps, owns, watch


class Fixed:
    """A cached object that is already decoded."""

    def __init__(self, obj: Object) -> None:
        self.object = obj


def obj(name: str = "a", **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "ns", **metadata}}


def change(old: Object | None, new: Object | None) -> Change:
    key = ObjectKey.of(new or old or {})
    before, after = (Fixed(o) if o is not None else None for o in (old, new))
    return Change(key, before, after)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("predicate", "before", "after", "holds"),
    [
        pytest.param(predicates.generation_changed, {"generation": 1}, {"generation": 1}, False),
        pytest.param(predicates.generation_changed, {"generation": 1}, {"generation": 2}, True),
        pytest.param(
            predicates.generation_changed, {"generation": 1},
            {"generation": 1, "deletionTimestamp": "now"}, True,
        ),
        pytest.param(predicates.annotations_changed, {}, {"annotations": {"a": "1"}}, True),
        pytest.param(predicates.annotations_changed, {}, {"labels": {"a": "1"}}, False),
        pytest.param(predicates.labels_changed, {}, {"labels": {"a": "1"}}, True),
        pytest.param(predicates.finalizers_changed, {"finalizers": ["a"]}, {}, True),
        pytest.param(predicates.resource_version_changed, {"resourceVersion": "1"},
                     {"resourceVersion": "1"}, False),
        pytest.param(predicates.has_labels("a=1"), {"labels": {"a": "1"}}, {}, True),
        pytest.param(predicates.has_labels("a=1"), {}, {}, False),
        pytest.param(predicates.not_(predicates.is_new), {}, {}, True),
        pytest.param(predicates.any_of(predicates.is_new, predicates.is_gone), {}, {}, False),
    ],
)  # fmt: skip
def test_predicates_compare_the_two_states(
    predicate: Predicate, before: Object, after: Object, *, holds: bool
) -> None:
    assert predicate(change(obj(**before), obj(**after))) is holds


@pytest.mark.parametrize(
    "predicate", [predicates.generation_changed, predicates.annotations_changed]
)
def test_new_and_deleted_objects_pass_predicates_that_compare(predicate: Predicate) -> None:
    assert predicate(change(None, obj()))
    assert predicate(change(obj(), None))
    assert predicates.is_new(change(None, obj()))
    assert predicates.is_gone(change(obj(), None))


def reference(name: str, **members: Any) -> Object:
    found = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": name, "controller": True}
    return {**found, **members}


@pytest.mark.parametrize(
    ("references", "keys"),
    [
        pytest.param([reference("s")], {ObjectKey("ns", "s")}, id="controlled"),
        pytest.param([reference("s", controller=False)], set(), id="owned-only"),
        pytest.param([reference("s", kind="Other")], set(), id="another-kind"),
        pytest.param([reference("s", apiVersion="x.io/v1")], set(), id="another-group"),
        pytest.param([], set(), id="no-owner"),
    ],
)
def test_children_map_to_their_controlling_owner(
    references: list[Object], keys: set[ObjectKey]
) -> None:
    source = owns(CONFIG_MAPS, SECRETS)
    assert source.keys(change(None, obj(ownerReferences=references))) == keys


def test_child_with_a_new_owner_maps_to_both_owners() -> None:
    source = owns(CONFIG_MAPS, SECRETS)
    old, new = (obj(ownerReferences=[reference(name)]) for name in "xy")
    assert source.keys(change(old, new)) == {ObjectKey("ns", "x"), ObjectKey("ns", "y")}


def test_key_of_a_cluster_scoped_owner_has_no_namespace() -> None:
    source = owns(CONFIG_MAPS, NAMESPACES)
    child = obj(ownerReferences=[reference("n", kind="Namespace")])
    assert source.keys(change(None, child)) == {ObjectKey("", "n")}


def test_all_predicates_of_a_source_must_match() -> None:
    source = watch(CONFIG_MAPS, predicates.is_new, predicates.has_labels("a=1"))
    assert source.keys(change(None, obj(labels={"a": "1"}))) == {ObjectKey("ns", "a")}
    assert source.keys(change(None, obj())) == set()
    assert source.keys(change(obj(labels={"a": "1"}), obj())) == set()


def test_other_resources_are_mapped_by_a_function() -> None:
    source = maps(SECRETS, lambda found: [ObjectKey("", found["metadata"]["name"] + "!")])
    assert source.keys(change(None, obj())) == {ObjectKey("", "a!")}


def test_keys_are_shown_with_their_namespace() -> None:
    assert [str(ObjectKey("ns", "a")), str(ObjectKey("", "a"))] == ["ns/a", "a"]
