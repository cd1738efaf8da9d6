# SPDX-License-Identifier: Apache-2.0
"""Work grows no faster than the request, and large objects are worked on off the event loop."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.http.client import CONFIG_MAPS, CRDS, RBAC, WIDGETS, Api, crd, widget

from rdd.api import fielderrors
from rdd.api.types import Object
from rdd.apiserver.crd.resources import CustomStrategy
from rdd.apiserver.http import bodies, responses
from rdd.apiserver.http.request import User
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.verbs import writes
from rdd.controllers.builtin.clusterrole_aggregation import aggregated_rules
from rdd.schema import defaults

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def owned(count: int) -> Object:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{i}", "uid": f"{i:036}"}
        for i in range(count)
    ]
    return {"metadata": {"generateName": "owned-", "ownerReferences": references}}


def labelled(count: int) -> Object:
    return {
        "metadata": {"generateName": "x-", "labels": {f"bad {i}": "bad !" for i in range(count)}}
    }


def annotated(count: int) -> Object:
    return {
        "metadata": {"generateName": "x-", "annotations": {f"bad {i}": "" for i in range(count)}}
    }


def finalized(count: int) -> Object:
    return {"metadata": {"generateName": "x-", "finalizers": [f"a.b/{i}" for i in range(count)]}}


def filled(count: int) -> Object:
    return {"metadata": {"generateName": "x-"}, "data": {f"bad {i}": "v" for i in range(count)}}


def reviewed(count: int) -> Object:
    requirements = [{"key": f"k{i}", "operator": "In", "values": ["a"]} for i in range(count)]
    attributes = {"verb": "list", "labelSelector": {"requirements": requirements}}
    return {"spec": {"resourceAttributes": attributes}}


def defined(count: int, type_: str = "string") -> Object:
    definition = crd()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {
        "type": "object",
        "properties": {f"p{i}": {"type": type_} for i in range(count)},
    }
    return definition


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def with_variables(count: int) -> Object:
    """Return a policy whose variables depend on each other."""
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["x"]}
    variables = [{"name": "v0", "expression": "'x'"}]
    variables += [
        {"name": f"v{i}", "expression": f"variables.v{i - 1} + 'x'"} for i in range(1, count)
    ]
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": variables,
        "validations": [{"expression": f"variables.v{i} != ''"} for i in range(count)],
    }
    return {"metadata": {"generateName": "p-"}, "spec": spec}


async def cost(api: Api, path: str, make: Callable[[int], Object], count: int) -> float:
    """Return the CPU time of a dry run, the least of some."""
    body = make(count)
    times = []
    gc.disable()
    try:
        for _ in range(3):
            began = time.process_time()
            await api.call("POST", path, body, query={"dryRun": "All"})
            times.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(times)


@pytest.mark.parametrize(
    ("path", "make", "count"),
    [
        pytest.param(CONFIG_MAPS, owned, 700, id="owner references"),
        pytest.param(CONFIG_MAPS, finalized, 2000, id="finalizers"),
        pytest.param(CONFIG_MAPS, labelled, 2000, id="bad labels"),
        pytest.param(CONFIG_MAPS, annotated, 2000, id="bad annotations"),
        pytest.param(CONFIG_MAPS, filled, 2000, id="bad keys"),
        pytest.param(REVIEWS, reviewed, 2000, id="requirements"),
        pytest.param(CRDS, defined, 800, id="properties"),
        pytest.param(CRDS, lambda n: defined(n, "bad"), 800, id="bad properties"),
        pytest.param(POLICIES, with_variables, 50, id="variables of a policy"),
    ],
)
async def test_work_is_not_quadratic(
    api: Api, path: str, make: Callable[[int], Object], count: int
) -> None:
    once = await cost(api, path, make, count)
    # Eight times as much work as a straight line has, sixty-four times as much as a square.
    assert await cost(api, path, make, count * 8) < 30 * once + 0.05


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: {f"p{i}": 1 for i in range(n)}, id="wrong types"),
        pytest.param(lambda n: {"p0": {"p1": {f"p{i}": 1 for i in range(n)}}}, id="deep"),
        pytest.param(lambda n: {}, id="required members"),
    ],
)
async def test_errors_of_custom_resources_are_not_quadratic(
    api: Api, make: Callable[[int], Object]
) -> None:
    async def of(count: int) -> float:
        definition = defined(count)
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["required"] = [f"r{i}" for i in range(count)]
        await api.install(definition)
        found = await cost(api, WIDGETS, lambda n: {**widget(""), "spec": make(n)}, count)
        await api.delete(f"{CRDS}/widgets.shop.example.com")
        await api.server.running.custom.settled()
        return found

    once = await of(500)
    assert await of(4000) < 30 * once + 0.05


async def test_selector_with_too_many_terms_is_rejected(api: Api) -> None:
    for query in ({"labelSelector": "a," * 20_000}, {"fieldSelector": "a=b," * 20_000}):
        status = await api.refused(400, "GET", CONFIG_MAPS, query=query)
        assert "more than 16000 terms" in status["message"]


@pytest.mark.parametrize(
    "accept",
    [
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ],
)
async def test_large_lists_are_rendered_off_the_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    threads: list[str] = []
    real = responses.value

    def recorded(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*args, **kwargs)

    for i in range(2):
        await api.post(CONFIG_MAPS, {"metadata": {"name": f"l{i}"}, "data": {"k": "v" * 40_000}})
    monkeypatch.setattr(responses, "value", recorded)
    await api.call("GET", CONFIG_MAPS, headers={"Accept": accept})
    assert threads and all(name.startswith("rdd-objects") for name in threads)


async def test_small_object_of_a_large_schema_is_validated_off_the_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = defined(20_000)
    await api.install(definition)
    threads: list[str] = []
    real = CustomStrategy.validate

    def recorded(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*args, **kwargs)

    monkeypatch.setattr(CustomStrategy, "validate", recorded)
    await api.post(WIDGETS, {**widget("small"), "spec": {}})
    assert threads and all(name.startswith("rdd-objects") for name in threads)


async def test_twenty_thousand_owner_references_are_too_large(api: Api) -> None:
    await api.refused(413, "POST", CONFIG_MAPS, owned(20_000))


async def test_status_lists_a_bounded_number_of_errors(api: Api) -> None:
    status = await api.refused(422, "POST", CONFIG_MAPS, labelled(20_000))
    causes = status["details"]["causes"]
    assert len(causes) == fielderrors.MAX_ERRORS + 1
    assert "more errors are not shown" in causes[-1]["message"]


def amplifying(size: int) -> Object:
    """Return a definition in which each empty item of a list gets a large default."""
    definition = crd()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "list": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"text": {"type": "string", "default": "x" * size}},
                },
            }
        },
    }
    return definition


async def test_defaults_cannot_make_an_object_larger_than_its_limit(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.install(amplifying(145_000))
    small = {**widget("small"), "spec": {"list": [{}] * 5}}
    found = await api.post(WIDGETS, small)
    assert [len(item["text"]) for item in found["spec"]["list"]] == [145_000] * 5
    copies = 0
    real = defaults.copied

    def counted(value: Any) -> Any:
        nonlocal copies
        copies += 1
        return real(value)

    monkeypatch.setattr(defaults, "copied", counted)
    large = {**widget("large"), "spec": {"list": [{}] * 100_000}}
    await api.refused(413, "POST", WIDGETS, large)
    assert copies <= 12, "not 100,000 copies of 145 kB"


async def test_stored_object_stays_as_it_is_if_new_defaults_are_too_large(api: Api) -> None:
    await api.install(amplifying(1))
    await api.post(WIDGETS, {**widget("w"), "spec": {"list": [{}] * 1000}})
    name = f"{CRDS}/widgets.shop.example.com"
    found = await api.get(name)
    schema = amplifying(20_000)["spec"]["versions"]
    await api.put(name, {**found, "spec": {**found["spec"], "versions": schema}})
    stored = await api.get(f"{WIDGETS}/w")
    assert stored["spec"]["list"][0] == {"text": "x"}


async def test_large_objects_are_decoded_and_validated_off_the_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def recorded(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            threads.append(threading.current_thread().name)
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(bodies, "decode_object", recorded(bodies.decode_object))
    monkeypatch.setattr(writes, "_record_owner", recorded(writes._record_owner))
    small = {"metadata": {"name": "small"}, "data": {"k": "v"}}
    large = {"metadata": {"name": "large"}, "data": {"k": "v" * 100_000}}
    await api.post(CONFIG_MAPS, small)
    assert set(threads) == {threading.current_thread().name}
    threads.clear()
    await api.post(CONFIG_MAPS, large)
    await api.put(f"{CONFIG_MAPS}/large", large)
    assert threads and all(name.startswith("rdd-objects") for name in threads)


async def test_selectors_over_many_objects_pause_for_others(api: Api) -> None:
    for i in range(50):
        await api.post(CONFIG_MAPS, {"metadata": {"name": f"c{i}", "labels": {"a": str(i)}}})
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(other())
    terms = ",".join(f"k{i}!=v" for i in range(4000))
    found = await api.get(CONFIG_MAPS, query={"labelSelector": terms})
    running.cancel()
    assert len(found["items"]) == 50
    assert turns >= 5


async def test_costly_rules_of_small_objects_are_evaluated_off_the_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = crd()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {
        "type": "object",
        "properties": {"list": {"type": "array", "maxItems": 300, "items": {"type": "integer"}}},
        "x-kubernetes-validations": [
            {"rule": "self.list.all(a, self.list.all(b, a == b || true))"}
        ],
    }
    await api.install(definition)
    threads: list[str] = []
    real = CustomStrategy.validate

    def recorded(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*args, **kwargs)

    monkeypatch.setattr(CustomStrategy, "validate", recorded)
    await api.post(WIDGETS, {**widget("compiles"), "spec": {"list": [1]}})
    threads.clear()
    await api.post(WIDGETS, {**widget("cheap"), "spec": {"list": [1]}})
    assert threads == [threading.current_thread().name]
    await api.post(WIDGETS, {**widget("costly"), "spec": {"list": list(range(300))}})
    assert threads[-1].startswith("rdd-objects")


def role_of(count: int) -> Object:
    rules = [
        {"verbs": ["get"], "apiGroups": [f"g{i}"], "resources": [f"r{i}"]} for i in range(count)
    ]
    return {"metadata": {"name": "many"}, "rules": rules}


def test_aggregation_is_not_quadratic() -> None:
    selectors: Object = {"clusterRoleSelectors": [{}]}
    aggregated = {"metadata": {"name": "all"}, "aggregationRule": selectors}

    def took(count: int) -> float:
        others = [role_of(count)]
        times = []
        gc.disable()
        try:
            for _ in range(3):
                began = time.process_time()
                assert len(aggregated_rules(aggregated, others) or ()) == count
                times.append(time.process_time() - began)
        finally:
            gc.enable()
        return min(times)

    once = took(1000)
    assert took(8000) < 30 * once + 0.05


async def test_change_of_one_role_decodes_only_that_role(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with many large roles does not pay for all of them after every change of RBAC."""
    ann = User("ann", ("system:authenticated",))
    for name in ("a", "b"):
        await api.post(f"{RBAC}/clusterroles", {**role_of(100), "metadata": {"name": name}})
        await api.post(
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name
                },
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
                ],
            },
        )  # fmt: skip
    await api.refused(403, "GET", CONFIG_MAPS, user=ann)
    decoded: list[str] = []
    real = CacheEntry.decode

    def counted(entry: CacheEntry) -> Object:
        decoded.append(entry.name)
        return real(entry)

    rules = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}]
    await api.patch(f"{RBAC}/clusterroles/a", {"rules": rules})
    monkeypatch.setattr(CacheEntry, "decode", counted)
    await api.call("GET", CONFIG_MAPS, user=ann)
    assert decoded.count("a") <= 1
    assert "b" not in decoded
    assert (await api.call("GET", CONFIG_MAPS, user=ann)).status == 200
