# SPDX-License-Identifier: Apache-2.0
"""The graph of owners, compared with a simple model."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.client.resources import CONFIG_MAPS, SECRETS
from rdd.controllers.builtin.owner_graph import OwnerGraph

UIDS = "abcdef"


@st.composite
def states(draw: st.DrawFn) -> dict[str, Any]:
    """Generate the metadata of an object."""
    uid = draw(st.sampled_from(UIDS))
    owners = draw(st.lists(st.sampled_from(UIDS), max_size=3, unique=True))
    metadata: dict[str, Any] = {"uid": uid, "name": uid, "namespace": "ns"}
    if owners:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner,
                "uid": owner,
                "blockOwnerDeletion": draw(st.booleans()),
            }
            for owner in owners
        ]
    finalizers = draw(st.sets(st.sampled_from(["foregroundDeletion", "orphan", "x"])))
    if finalizers:
        metadata["finalizers"] = sorted(finalizers)
        if draw(st.booleans()):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return metadata


steps = st.lists(st.one_of(states(), st.sampled_from(UIDS)), max_size=30)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_graph_agrees_with_a_model_after_every_step(script: list[Any]) -> None:
    graph = OwnerGraph()
    model: dict[str, dict[str, Any]] = {}
    for step in script:
        if isinstance(step, str):
            model.pop(step, None)
            had = {n.uid for n in graph.dependents(step)}
            affected = graph.remove(step, "ns")
            assert had <= set(affected)
        else:
            before = model.get(step["uid"], {})
            model[step["uid"]] = step
            affected = graph.observe(CONFIG_MAPS, step)
            earlier = {r["uid"] for r in before.get("ownerReferences", ())}
            if {r["uid"] for r in step.get("ownerReferences", ())} - earlier:
                assert step["uid"] in affected
        for uid in UIDS:
            refs = {
                (other, ref["blockOwnerDeletion"])
                for other, metadata in model.items()
                for ref in metadata.get("ownerReferences", ())
                if ref["uid"] == uid
            }
            assert {n.uid for n in graph.dependents(uid)} == {other for other, _ in refs}
            assert {n.uid for n in graph.blockers(uid)} == {other for other, b in refs if b}
            in_foreground = "deletionTimestamp" in model.get(uid, {}) and (
                "foregroundDeletion" in model[uid]["finalizers"]
            )
            assert (uid in graph.in_foreground) == in_foreground
        assert graph.nodes.keys() <= model.keys()
        assert all(graph.dependents(uid) for uid in graph.deleted)


@settings(max_examples=50, deadline=None)
@given(steps)
def test_graph_is_empty_after_all_deletions(script: list[Any]) -> None:
    graph = OwnerGraph()
    for step in script:
        if not isinstance(step, str):
            graph.observe(CONFIG_MAPS, step)
    for uid in UIDS:
        graph.remove(uid, "ns")
    assert not graph.nodes and not graph.deleted and not graph.in_foreground
    assert not any(graph.dependents(uid) for uid in UIDS)


def test_dropping_a_resource_marks_no_object_as_deleted() -> None:
    graph = OwnerGraph()
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o"}
    graph.observe(CONFIG_MAPS, {"uid": "o", "name": "o", "ownerReferences": [{**ref, "uid": "x"}]})
    graph.observe(SECRETS, {"uid": "d", "name": "d", "ownerReferences": [ref]})
    graph.drop_resource(CONFIG_MAPS)
    assert set(graph.nodes) == {"d"}
    assert not graph.deleted


def test_dependents_of_one_owner_share_the_reference_object() -> None:
    graph = OwnerGraph()
    for uid in ("a", "b"):
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "owner"}
        graph.observe(SECRETS, {"uid": uid, "name": uid, "ownerReferences": [ref]})
    assert graph.nodes["a"].owners[0] is graph.nodes["b"].owners[0]
