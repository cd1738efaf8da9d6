# SPDX-License-Identifier: Apache-2.0
"""Objects of the project's own kinds that the server rejects, and the messages."""

from typing import Any

import pytest
from tests.http.client import Api
from tests.unit.kinds.paths import Where, changed, path_of, shown, values_of, without
from tests.unit.kinds.samples import SAMPLES, condition

from rdd.api.types import Object
from rdd.kinds.app import App
from rdd.kinds.catalog import ALL
from rdd.kinds.configmapreplicaset import ConfigMapReplicaSet
from rdd.kinds.container import Container, ContainerCreateRequest
from rdd.kinds.crd import definition_of, schema_of
from rdd.kinds.demo import Demo
from rdd.kinds.hostinfo import HostInfo
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import LimaVM
from rdd.kinds.resource import Checkout, Resource
from rdd.kinds.snapshot import Snapshot
from rdd.kinds.urlmonitor import URLMonitor

QUANTITY = definition_of(HostInfo)["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
    "properties"
]["status"]["properties"]["memory"]["pattern"]
NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was "
    "invalid; correct the existing errors to complete validation"
)


class DryRunWriter:
    """Writes changed samples of a kind to the server, as dry runs."""

    def __init__(self, api: Api, kind: type[Kind], stored: Object) -> None:
        self.api = api
        self.kind = kind
        self.metadata = stored["metadata"]

    async def rejection(self, obj: Object) -> str:
        """Return the error message of the server; empty if it accepts the object."""
        is_status = obj.get("status") != SAMPLES[self.kind].raw.get("status")
        path = path_of(self.kind, self.metadata["name"], "status" if is_status else "")
        body = {**obj, "metadata": self.metadata}
        reply = await self.api.call("PUT", path, body, query={"dryRun": "All"})
        if reply.status == 200:
            return ""
        message: str = reply.json()["message"]
        start = f'{self.kind.kind}.{self.kind.group} "{self.metadata["name"]}" is invalid: '
        assert (reply.status, message[: len(start)]) == (422, start)
        return message.removeprefix(start)


async def make_writer(api: Api, kind: type[Kind]) -> DryRunWriter:
    await api.install(definition_of(kind))
    return DryRunWriter(api, kind, await api.post(path_of(kind), SAMPLES[kind].raw))


HAS_RULES = (App, Checkout, Demo, LimaVM, Resource, Snapshot, URLMonitor)


def listed(kind: type[Kind], *errors: str) -> str:
    """Join errors as a message does; schema errors prevent the evaluation of CEL rules."""
    found = [*errors, NOT_CHECKED] if kind in HAS_RULES else [*errors]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
async def test_each_missing_required_field_is_reported(api: Api, kind: type[Kind]) -> None:
    writer, sample, schema = await make_writer(api, kind), SAMPLES[kind].raw, schema_of(kind)
    required: list[Where] = [("spec",)] if "spec" in schema.get("required", ()) else []
    for at, inner in values_of(schema, sample):
        members = (inner.get("items") or inner).get("properties", {})
        inside: Where = (*at, 0) if "items" in inner else at
        names = (inner.get("items") or inner).get("required", ())
        required += [(*inside, name) for name in names if "default" not in members[name]]
    for at in required:
        assert await writer.rejection(without(sample, at)) == listed(
            kind, f"{shown(at)}: Required value"
        )


def unsupported(where: str, value: Any, *allowed: str) -> str:
    values = ", ".join(f'"{one}"' for one in allowed)
    given = f'"{value}"' if isinstance(value, str) else value
    return f"{where}: Unsupported value: {given}: supported values: {values}"


WRONG: dict[str, tuple[Any, str]] = {
    "string": (7, "integer"),
    "date-time": (7, "int64"),
    "integer": ("seven", "string"),
    "boolean": ("yes", "string"),
    "array": ({}, "object"),
    "object": ([], "array"),
}


def type_errors(schema: Object, where: str, *, in_list_map: bool) -> list[str]:
    """Return the error for a value of a wrong type (see WRONG)."""
    type_ = "date-time" if schema.get("format") == "date-time" else schema["type"]
    got = WRONG[type_][1]
    words = f'{where} in body must be of type {type_}: "{got}"'
    errors = [f'{where}: Invalid value: "{got}": {words}']
    if "enum" in schema:
        errors.append(unsupported(where, 7, *schema["enum"]))
    if in_list_map:
        words = "must be an object for an array of list-type map"
        errors.append(f"{where}: Invalid value: []: {words}")
    return errors


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
async def test_each_field_accepts_only_its_type(api: Api, kind: type[Kind]) -> None:
    writer, sample = await make_writer(api, kind), SAMPLES[kind].raw
    assert await writer.rejection(sample) == ""
    found = dict(values_of(schema_of(kind), sample))
    for at, schema in found.items():
        if "x-kubernetes-int-or-string" in schema or "allOf" in schema:
            continue
        in_list_map = at[-1] == 0 and "x-kubernetes-list-map-keys" in found[at[:-1]]
        errors = type_errors(schema, shown(at), in_list_map=in_list_map)
        wrong = WRONG[schema["type"]][0]
        assert await writer.rejection(changed(sample, at, wrong)) == listed(kind, *errors)


STATES = (
    *("created", "running", "pausing", "paused", "restarting", "removing", "exited", "dead"),
    "unknown",
)
CONDITION: Where = ("status", "conditions", 0)


@pytest.mark.parametrize(
    ("kind", "at", "values"),
    [
        pytest.param(App, ("spec", "containerEngine"), ("moby", "containerd"), id="engine"),
        pytest.param(App, ("spec", "virtualMachine"), ("auto", "lima", "qemu", "host"), id="type"),
        pytest.param(App, (*CONDITION, "status"), ("True", "False", "Unknown"), id="condition"),
        pytest.param(Container, ("status", "status"), STATES, id="state"),
        pytest.param(
            Container,
            ("status", "lastAction", "action"),
            ("start", "stop", "pause", "unpause", "restart"),
            id="action",
        ),
        pytest.param(
            Container, ("status", "lastAction", "state"), ("Succeeded", "Failed"), id="outcome"
        ),
    ],
)
async def test_enum_accepts_only_its_values(
    api: Api, kind: type[Kind], at: Where, values: tuple[str, ...]
) -> None:
    writer, sample = await make_writer(api, kind), SAMPLES[kind].raw
    nested = {"containerEngine": "name", "virtualMachine": "type"}.get(str(at[-1]))

    def put(value: str) -> Object:
        return changed(sample, at, {nested: value} if nested else value)

    for value in values:
        assert await writer.rejection(put(value)) == ""
    where = shown((*at, nested) if nested else at)
    error = unsupported(where, "other", *values)
    assert await writer.rejection(put("other")) == listed(kind, error)


async def test_state_of_a_create_request_must_be_in_both_of_its_enums(api: Api) -> None:
    writer = await make_writer(api, ContainerCreateRequest)

    async def rejection(state: Any) -> str:
        obj = changed(SAMPLES[ContainerCreateRequest].raw, ("spec", "state"), state)
        return await writer.rejection(obj)

    both = '<nil>: Invalid value: "": "spec.state" must validate all the schemas (allOf)'
    wanted = ("created", "running")
    assert [await rejection(state) for state in wanted] == ["", ""]
    first = unsupported("spec.state", "paused", *wanted)
    assert await rejection("paused") == f"[{first}, {both}]"
    errors = [unsupported("spec.state", "bogus", *values) for values in (STATES, wanted)]
    assert await rejection("bogus") == f"[{', '.join(errors)}, {both}. None validated]"


PORTS: Where = ("spec", "ports")
DATE_TIME = 'Invalid value: "{value}": {where} in body must be of type date-time: "{value}"'
TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
MATCH = "Invalid value: \"{value}\": {where} in body should match '{pattern}'"


@pytest.mark.parametrize(
    ("kind", "at", "taken", "refused", "why"),
    [
        pytest.param(
            *(HostInfo, ("status", "memory"), "1.5Gi", "many", MATCH), id="quantity pattern"
        ),
        pytest.param(Container, (*CONDITION, "type"), "a.b/Ready", "Not ready", MATCH, id="type"),
        pytest.param(
            Container, (*CONDITION, "reason"), "A,b:c_1", "no_spaces ", MATCH, id="reason"
        ),
        pytest.param(
            *(Container, (*CONDITION, "reason"), "R", ""),
            'Invalid value: "": {where} in body should be at least 1 chars long',
            id="shortest reason",
        ),
        pytest.param(
            *(Container, (*CONDITION, "reason"), "R" * 1024, "R" * 1025),
            "Too long: may not be more than 1024 bytes",
            id="longest reason",
        ),
        pytest.param(
            *(Container, (*CONDITION, "message"), "é" * 32768, "é" * 32769),
            "Too long: may not be more than 32768 bytes",
            id="longest message",
        ),
        pytest.param(
            *(Container, (*CONDITION, "type"), "T" * 316, "T" * 317),
            "Too long: may not be more than 316 bytes",
            id="longest type",
        ),
        pytest.param(
            *(Container, (*CONDITION, "observedGeneration"), 0, -1),
            "Invalid value: -1: {where} in body should be greater than or equal to 0",
            id="generation",
        ),
        pytest.param(
            *(Container, (*CONDITION, "lastTransitionTime"), "2026-01-02T03:04:05+01:00"),
            *("yesterday", DATE_TIME),
            id="time of a condition",
        ),
        pytest.param(
            *(Container, ("status", "createdAt"), "2026-01-02T03:04:05.678Z", "now", DATE_TIME),
            id="time of creation",
        ),
        pytest.param(
            *(Container, ("status", "conditions")),
            [condition("A").raw, condition("B").raw],
            [condition("A").raw, condition("B").raw, condition("A").raw],
            'status.conditions[2]: Duplicate value: {{"type":"A"}}',
            id="conditions by type",
        ),
        pytest.param(
            *(ContainerCreateRequest, PORTS),
            [{"name": "80/tcp"}, {"name": "80/udp"}],
            [{"name": "80/tcp"}, {"name": "80/tcp"}],
            'spec.ports[1]: Duplicate value: {{"name":"80/tcp"}}',
            id="ports by name",
        ),
    ],
)
async def test_constraint(
    api: Api, kind: type[Kind], at: Where, taken: Any, refused: Any, why: str
) -> None:
    writer, sample = await make_writer(api, kind), SAMPLES[kind].raw
    assert await writer.rejection(changed(sample, at, taken)) == ""
    pattern = {"type": TYPE, "reason": REASON, "memory": QUANTITY}.get(str(at[-1]))
    why = why.format(value=refused, where=shown(at), pattern=pattern)
    where = "" if "Duplicate" in why else f"{shown(at)}: "
    assert await writer.rejection(changed(sample, at, refused)) == where + why


@pytest.mark.parametrize(
    ("kind", "at", "format_"),
    [
        pytest.param(ConfigMapReplicaSet, ("spec", "replicas"), "int32", id="replicas"),
        pytest.param(ConfigMapReplicaSet, ("status", "readyReplicas"), "int32", id="ready"),
        pytest.param(Container, ("status", "pid"), "int32", id="pid"),
        pytest.param(Container, ("status", "exitCode"), "int32", id="exit code"),
        pytest.param(Demo, ("spec", "count"), "int32", id="count"),
        pytest.param(Demo, ("status", "processedCount"), "int32", id="processed"),
        pytest.param(LimaVM, ("status", "restartCount"), "int32", id="restarts"),
    ],
)
async def test_integers_fit_their_format(
    api: Api, kind: type[Kind], at: Where, format_: str
) -> None:
    writer, sample = await make_writer(api, kind), SAMPLES[kind].raw
    assert await writer.rejection(changed(sample, at, 2**31 - 1)) == ""
    what = f'<nil>: Invalid value: "": Checked value must be of type integer with format {format_}'
    assert await writer.rejection(changed(sample, at, 2**31)) == f"{what} in {shown(at)}"


async def test_conditions_of_a_replica_set_may_repeat_a_type(api: Api) -> None:
    writer, sample = await make_writer(api, ConfigMapReplicaSet), SAMPLES[ConfigMapReplicaSet].raw
    twice = [condition().raw, condition().raw]
    assert await writer.rejection(changed(sample, ("status", "conditions"), twice)) == ""


@pytest.mark.parametrize("memory", ["4Gi", "4096Mi", 4096, "1e3", "+.5", "-1"])
async def test_quantity_is_a_number_or_a_text(api: Api, memory: object) -> None:
    writer = await make_writer(api, App)
    obj = changed(SAMPLES[App].raw, ("spec", "virtualMachine"), {"memory": memory})
    assert await writer.rejection(obj) == ""


async def test_rejects_other_values_as_quantity(api: Api) -> None:
    writer = await make_writer(api, App)
    obj = changed(SAMPLES[App].raw, ("spec", "virtualMachine"), {"memory": True})
    where = "spec.virtualMachine.memory"
    wrong = f'{where}: Invalid value: "boolean": {where} in body must be of type'
    assert await writer.rejection(obj) == listed(
        App,
        f'{wrong} integer,string: "boolean"',
        f'<nil>: Invalid value: "": "{where}" must validate at least one schema (anyOf)',
        f'{wrong} integer: "boolean"',
    )


@pytest.mark.parametrize("kind", [App, Demo], ids=lambda kind: kind.kind)
async def test_singletons_have_one_name(api: Api, kind: type[Kind]) -> None:
    await api.install(definition_of(kind))
    obj = changed(SAMPLES[kind].raw, ("metadata", "name"), "other")
    status = await api.refused(422, "POST", path_of(kind), obj)
    words = f"{kind.kind} resource must be named '{kind.kind.lower()}'"
    assert status["message"] == (
        f'{kind.kind}.{kind.group} "other" is invalid: <nil>: Invalid value: {words}'
    )


async def test_namespace_of_an_app_cannot_change(api: Api) -> None:
    await api.install(definition_of(App))
    obj = changed(SAMPLES[App].raw, ("spec", "namespace"), "rancher-desktop")
    await api.post(path_of(App), obj)
    path = path_of(App, "app")
    await api.patch(path, {"spec": {"namespace": "rancher-desktop", "running": False}})
    status = await api.refused(
        *(422, "PATCH", path, {"spec": {"namespace": "other"}}),
        content_type="application/merge-patch+json",
    )
    assert status["message"] == (
        'App.app.rancherdesktop.io "app" is invalid: '
        'spec.namespace: Invalid value: "other": spec.namespace is immutable'
    )


@pytest.mark.parametrize("change", [{"name": "other"}, {"namespace": "other"}], ids=str)
async def test_template_reference_of_a_virtual_machine_cannot_change(
    api: Api, change: Object
) -> None:
    await api.install(definition_of(LimaVM))
    await api.post(path_of(LimaVM), SAMPLES[LimaVM].raw)
    path = path_of(LimaVM, "one")
    await api.patch(path, {"spec": {"templateRef": {"name": "rd"}, "running": True}})
    status = await api.refused(
        *(422, "PATCH", path, {"spec": {"templateRef": change}}),
        content_type="application/merge-patch+json",
    )
    assert status["message"] == (
        'LimaVM.lima.rancherdesktop.io "one" is invalid: '
        "spec.templateRef: Invalid value: templateRef is immutable"
    )


async def test_partial_status_without_required_members_cannot_be_applied(api: Api) -> None:
    await api.install(definition_of(Container))
    await api.post(path_of(Container), SAMPLES[Container].raw)
    body = {
        "apiVersion": Container.api_version,
        "kind": "Container",
        "metadata": {"name": "one"},
        "status": {"name": "web"},
    }
    status = await api.apply(path_of(Container, "one", "status"), body, expect=422)
    assert status["message"] == (
        'Container.containers.rancherdesktop.io "one" is invalid: [status.image: Required value, '
        "status.namespace: Required value, status.path: Required value]"
    )
