# SPDX-License-Identifier: Apache-2.0
"""Views: typed reading of plain dicts, building of new ones, and valid declarations."""

import copy
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api.types import Object
from rdd.kinds import constraints
from rdd.kinds.app import App, AppSpec, AppStatus, VirtualMachine
from rdd.kinds.conditions import Condition
from rdd.kinds.configmapreplicaset import ConfigMapReplicaSetSpec
from rdd.kinds.container import Container, ContainerStatus
from rdd.kinds.crd import definition_of, schema_of
from rdd.kinds.hostinfo import HostInfo, HostInfoStatus
from rdd.kinds.limavm import LimaVM, LimaVMSpec, LimaVMStatus, TemplateReference
from rdd.kinds.metadata import ObjectMeta, OwnerReference
from rdd.kinds.parts.ports import Port, PortBinding
from rdd.kinds.struct import UNSET, Struct, field


def test_view_reads_present_members() -> None:
    app = App.of(
        {
            "metadata": {"name": "app", "generation": 3, "labels": {"a": "b"}},
            "spec": {
                "running": True,
                "namespace": "ns",
                "kubernetes": {"enabled": True, "version": "1.34.6"},
                "virtualMachine": {"cpus": 4, "memory": "4Gi", "type": "host"},
            },
            "status": {"conditions": [{"type": "Settled", "status": "True"}]},
        }
    )
    assert (app.metadata.name, app.metadata.generation) == ("app", 3)
    assert app.metadata.labels == {"a": "b"}
    assert (app.spec.running, app.spec.namespace) == (True, "ns")
    assert (app.spec.kubernetes.enabled, app.spec.kubernetes.version) == (True, "1.34.6")
    machine = app.spec.virtual_machine
    assert (machine.cpus, machine.memory, machine.type) == (4, "4Gi", "host")
    (condition,) = app.status.conditions
    assert (condition.type, condition.status) == ("Settled", "True")


@pytest.mark.parametrize("raw", [{}, {"metadata": None, "spec": None, "status": None}], ids=str)
def test_absent_members_read_as_defaults_or_empty(raw: Object) -> None:
    app = App.of(raw)
    assert (app.metadata.name, app.metadata.finalizers, app.metadata.labels) == ("", (), {})
    assert (app.spec.running, app.spec.namespace) == (False, "default")
    assert app.spec.container_engine.name == "moby"
    assert app.spec.application.updates.enabled is True
    assert (app.spec.kubernetes.enabled, app.spec.kubernetes.version) == (False, "")
    assert (app.spec.virtual_machine.cpus, app.spec.virtual_machine.memory) == (0, "")
    assert app.spec.virtual_machine.type is None
    assert (app.status.kubernetes_port, app.status.conditions) == (0, ())
    assert raw in ({}, {"metadata": None, "spec": None, "status": None})


def test_absent_nullable_member_reads_as_none() -> None:
    assert ConfigMapReplicaSetSpec.of({}).replicas is None
    assert ConfigMapReplicaSetSpec.of({"replicas": 0}).replicas == 0
    status = Container.of({}).status
    assert (status.exit_code, status.last_action, status.pid) == (None, None, 0)
    assert status.status == "unknown"
    action = ContainerStatus.of({"lastAction": {"action": "stop", "state": "Failed"}}).last_action
    assert action is not None and action.state == "Failed"


def test_numeric_quantity_reads_as_text() -> None:
    assert HostInfoStatus.of({"memory": 1024}).memory == "1024"
    assert HostInfo.of({"status": {"memory": "16Gi"}}).status.memory == "16Gi"


def test_nested_lists_are_views_too() -> None:
    obj = {"ports": [{"name": "80/tcp", "bindings": [{"hostIP": "::", "hostPort": "8080"}]}]}
    (port,) = ContainerStatus.of(obj).ports
    (binding,) = port.bindings
    assert (port.name, binding.host_ip, binding.host_port) == ("80/tcp", "::", "8080")


def test_view_copies_nothing() -> None:
    obj: Object = {"spec": {"kubernetes": {"enabled": True}}}
    app = App.of(obj)
    assert app.raw is obj
    assert app.spec.kubernetes.raw is obj["spec"]["kubernetes"]


def test_views_of_absent_structs_are_not_shared() -> None:
    app = App.of({})
    app.spec.raw["running"] = True
    assert app.spec.running is False


def test_rejects_view_of_a_value_that_is_not_an_object() -> None:
    with pytest.raises(TypeError, match="AppSpec is an object, not str"):
        _ = App.of({"spec": "text"}).spec
    with pytest.raises(TypeError, match="Condition is an object, not int"):
        _ = AppStatus.of({"conditions": [1]}).conditions


@pytest.mark.parametrize("name", ["running", "started"])
def test_views_are_read_only(name: str) -> None:
    spec = AppSpec.of({"running": False})
    with pytest.raises(AttributeError):
        setattr(spec, name, True)
    assert spec.raw == {"running": False}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=4,
)
objects = st.dictionaries(st.sampled_from(["kind", "status", "future", "x"]), json_values)


@settings(max_examples=50, deadline=None)
@given(objects, objects)
def test_unknown_members_are_preserved(obj: Object, spec: Object) -> None:
    obj["spec"], before = spec, copy.deepcopy({**obj, "spec": spec})
    app = App.of(obj)
    stopped = app.replace(spec=app.spec.replace(running=True))
    assert stopped.raw == {**before, "spec": {**before["spec"], "running": True}}
    assert obj == before


def test_replace_writes_and_removes_in_a_copy() -> None:
    vm = LimaVMStatus(restart_needed=True, restart_count=1, template_config_map="t")
    changed = vm.replace(restart_needed=False, restart_count=2, template_config_map=None)
    assert changed.raw == {"restartCount": 2}
    assert vm.raw == {"restartNeeded": True, "restartCount": 1, "templateConfigMap": "t"}
    with pytest.raises(TypeError, match="LimaVMStatus has no restarts"):
        vm.replace(restarts=1)


def test_new_object_has_its_kind_and_only_given_members() -> None:
    vm = LimaVM(
        metadata=ObjectMeta(
            name="rd",
            namespace="default",
            finalizers=("a", "b"),
            owner_references=[
                OwnerReference(
                    api_version=App.api_version, kind=App.kind, name="app", uid="1", controller=True
                )
            ],
        ),
        spec=LimaVMSpec(running=False, template_ref=TemplateReference(name="rd")),
    )
    assert vm.raw == {
        "apiVersion": "lima.rancherdesktop.io/v1alpha1",
        "kind": "LimaVM",
        "metadata": {
            "name": "rd",
            "namespace": "default",
            "finalizers": ["a", "b"],
            "ownerReferences": [
                {
                    "apiVersion": "app.rancherdesktop.io/v1alpha1",
                    "kind": "App",
                    "name": "app",
                    "uid": "1",
                    "controller": True,
                }
            ],
        },
        "spec": {"running": False, "templateRef": {"name": "rd"}},
    }


def test_values_that_read_the_same_when_absent_are_omitted() -> None:
    assert LimaVMStatus(restart_count=0, restart_needed=False, conditions=[]).raw == {}
    assert AppStatus(kubernetes_port=0).raw == {}
    assert Port(name="80/tcp", bindings=()).raw == {"name": "80/tcp"}


def test_values_that_read_differently_when_absent_are_kept() -> None:
    assert AppSpec(running=False, namespace="").raw == {"running": False, "namespace": ""}
    assert ConfigMapReplicaSetSpec(replicas=0).raw == {"replicas": 0}
    assert ConfigMapReplicaSetSpec(replicas=None).raw == {}
    assert VirtualMachine(type=None).raw == {}
    # The server sets defaults inside an empty struct, but not inside an absent one.
    assert App(spec=AppSpec.of({})).raw["spec"] == {}


def test_built_values_do_not_share_lists_with_their_arguments() -> None:
    labels, binding = {"a": "b"}, PortBinding(host_ip="", host_port="1")
    meta = ObjectMeta(labels=labels)
    labels["c"] = "d"
    assert meta.labels == {"a": "b"}
    assert Port(name="1/tcp", bindings=[binding]).raw["bindings"] == [binding.raw]


def test_rejects_missing_and_unknown_arguments() -> None:
    with pytest.raises(TypeError, match="AppSpec needs running"):
        AppSpec()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="AppSpec has no cpus"):
        AppSpec(running=True, cpus=1)  # type: ignore[call-arg]


def test_type_checker_checks_the_fields() -> None:
    spec = AppSpec(running=True)
    with pytest.raises(AttributeError):
        spec.running = False  # type: ignore[misc]
    with pytest.raises(AttributeError):
        _ = spec.started  # type: ignore[attr-defined]
    engine: Literal["moby", "containerd"] = spec.container_engine.name
    conditions: Sequence[Condition] = App.of({}).status.conditions
    labels: Mapping[str, str] = App.of({}).metadata.labels
    assert (engine, conditions, labels) == ("moby", (), {})


def test_views_are_compared_by_kind_and_content() -> None:
    assert AppSpec(running=True) == AppSpec.of({"running": True})
    assert AppSpec(running=True) != AppSpec(running=False)
    assert AppSpec.of({}) != AppStatus.of({})
    assert repr(AppSpec(running=True)) == "AppSpec.of({'running': True})"
    with pytest.raises(TypeError, match="unhashable"):
        hash(AppSpec(running=True))


def test_definitions_do_not_share_anything() -> None:
    first = definition_of(App)
    untouched = copy.deepcopy(first)

    def wreck(value: Any) -> None:
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, dict | list):
                wreck(inner)
        value.clear()

    wreck(first)
    assert definition_of(App) == untouched


def test_schema_of_a_declaration() -> None:
    class Thing(Struct):
        """A thing."""

        name: str = field("Its name.", schema={"minLength": 1})
        size_in_mb: int = field("Its size.", default=UNSET, name="sizeMB", schema=constraints.INT64)
        colour: Literal["red", "blue"] = field("Its colour.", default="red", required=True)

    assert schema_of(Thing) == {
        "description": "A thing.",
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Its name."},
            "sizeMB": {"type": "integer", "format": "int64", "description": "Its size."},
            "colour": {
                "type": "string",
                "enum": ["red", "blue"],
                "default": "red",
                "description": "Its colour.",
            },
        },
        "required": ["colour", "name"],
    }


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        pytest.param(int | str, UNSET, "a union can only be `T | None`", id="union"),
        pytest.param(int | None, UNSET, "need each other", id="None without default"),
        pytest.param(int, None, "need each other", id="default without None"),
        pytest.param(Literal["a"], UNSET, "the empty text is not in the enum", id="empty enum"),
        pytest.param(float, UNSET, "cannot be of type", id="unknown type"),
        pytest.param(dict, UNSET, "cannot be of type", id="bare dict"),
    ],
)
def test_rejects_inconsistent_declarations(
    annotation: object, default: object, message: str
) -> None:
    members = {"__annotations__": {"a": annotation}, "a": field("A field.", default=default)}
    with pytest.raises(TypeError, match=f"a: .*{message}".replace("|", r"\|")):
        types.new_class("Broken", (Struct,), exec_body=lambda namespace: namespace.update(members))
