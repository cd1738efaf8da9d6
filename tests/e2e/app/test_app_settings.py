# SPDX-License-Identifier: Apache-2.0
"""`rdd get`, `set`, `history` and `undo` with the real daemon and its admission."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world


@pytest.fixture(scope="module")
def served(
    rdd_script: Path, tmp_path_factory: pytest.TempPathFactory, kubectl: Path
) -> Iterator[World]:
    """A daemon with the App controller; machines are not created."""
    for world in make_world(rdd_script, tmp_path_factory.mktemp("h"), kubectl):
        world.rdd("svc", "start", "--", "--controllers=app", "--secure-port=0")
        yield world


@pytest.fixture
def world(served: World) -> Iterator[World]:
    served.rdd("set", "--wait=false", "virtualMachine.type=host")
    yield served
    served.kubectl("delete", "apps", "--all")
    if served.kubectl("get", "cm", "-n", "rdd-system", "-o", "name").count("app-history"):
        served.kubectl("delete", "cm", "-n", "rdd-system", "app-history")


def change(world: World, *words: str) -> None:
    """Change settings and wait until the change is recorded."""
    before = len(history(world))
    world.rdd("set", "--wait=false", *words)
    world.until(lambda: len(history(world)) > before)


def history(world: World) -> list[Any]:
    found: list[Any] = world.rdd("history", "-o", "json").json()
    return found


def spec(world: World) -> Any:
    return json.loads(world.kubectl("get", "app", "app", "-o", "json"))["spec"]


def test_get_shows_value_default_and_source(world: World) -> None:
    change(world, "kubernetes.version=1.33.1", "proxy.noProxy=a.example,b.example")
    lines = world.rdd("get").out.splitlines()
    assert lines[0].split() == ["PROPERTY", "VALUE", "DEFAULT", "SOURCE", "LOCK"]
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "namespace" not in rows
    assert rows["containerEngine.name"].split()[1:] == ["moby", "moby", "default", "-"]
    assert "a.example,b.example" in rows["proxy.noProxy"]
    assert rows["virtualMachine.cpus"].split()[3].startswith("default")
    one = world.rdd("get", "proxy.noProxy", "-o", "json").json()
    assert one["value"] == ["a.example", "b.example"]
    assert (one["default"], one["lock"]) == (None, None)
    assert one["source"].startswith("set by system-admin with rdd, 20")
    below = world.rdd("get", "virtualMachine", "-o", "json").json()
    assert [found["property"] for found in below] == [
        "virtualMachine.cpus",
        "virtualMachine.disk",
        "virtualMachine.memory",
        "virtualMachine.type",
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("get", "cpus"), 'unknown property "cpus"; did you mean "virtualMachine.cpus"?'),
        (("get", "namespace"), 'unknown property "namespace"'),
        (("get", ""), ""),
        (("get", "a", "b"), "accepts at most 1 arg(s)"),
        (("get", "-o", "xml"), 'unknown output format "xml"'),
        (("history", "-o", "xml"), 'unknown output format "xml"'),
        (("undo", "-o", "xml"), 'unknown output format "xml"'),
        (("set", "certificates.authorities=@/none"), "No such file or directory"),
        (("set", "certificates.authorities=@/etc/passwd"), "contains no PEM certificate"),
        (("set", "registries.mirrors=[1]"), "expected a map"),
    ],
)
def test_wrong_arguments_are_one_line(world: World, words: tuple[str, ...], text: str) -> None:
    before = spec(world)
    done = world.try_rdd(*words)
    if text:
        assert (done.code, done.out) == (1, "")
        assert text in done.last[1]
    assert spec(world) == before


def test_rejected_value_is_one_sentence_without_the_webhook(world: World) -> None:
    done = world.try_rdd("set", "virtualMachine.memory=8")
    assert (done.code, done.last[0]) == (3, "error")
    assert done.last[1] == "spec.virtualMachine.memory 8 is less than the minimum of 2Gi"
    assert "denied the request" not in done.err


def test_source_of_an_unset_boolean_is_the_default(world: World) -> None:
    found = world.rdd("get", "kubernetes.enabled", "-o", "json").json()
    assert (found["value"], found["default"], found["source"]) == (False, False, "default")


def test_set_takes_lists_maps_and_files(world: World, tmp_path: Path) -> None:
    mirrors = tmp_path / "mirrors.yaml"
    mirrors.write_text("- registry: docker.io\n  endpoints: [https://mirror.example]\n")
    change(world, f"registries.mirrors=@{mirrors}", "registries.insecure=a.example,b.example:5000")
    found = spec(world)["registries"]
    assert found["mirrors"] == [{"registry": "docker.io", "endpoints": ["https://mirror.example"]}]
    assert found["insecure"] == ["a.example", "b.example:5000"]


def test_dry_run_shows_old_and_new_values_and_what_restarts(world: World) -> None:
    done = world.rdd("set", "--dry-run", "kubernetes.enabled=true", "proxy.noProxy=x")
    lines = done.out.splitlines()
    assert lines[0].split() == ["PROPERTY", "OLD", "NEW"]
    assert ["kubernetes.enabled", "false", "true"] in [line.split() for line in lines]
    assert ["proxy.noProxy", "-", "x"] in [line.split() for line in lines]
    assert lines[-1] == "Nothing restarts: the machine does not run."
    assert spec(world)["kubernetes"]["enabled"] is False
    same = world.rdd("set", "--dry-run", "containerEngine.name=moby")
    assert same.out == "Nothing changes.\n"
    assert world.rdd("set", "--dry-run", "-o", "json", "running=true").json()["spec"]["running"]


def test_history_records_every_accepted_change_and_no_other(world: World) -> None:
    world.until(lambda: history(world))
    first = history(world)[-1]
    assert first["operation"] == "create"
    assert {"field": "virtualMachine.type", "old": None, "new": "host"} in first["fields"]
    change(world, "containerEngine.name=containerd", "proxy.httpProxy=http://me:secret@proxy:3128")
    assert world.try_rdd("set", "--wait=false", "kubernetes.version=9").code == 3
    world.rdd("set", "--dry-run", "containerEngine.name=moby")
    world.kubectl("annotate", "app", "app", "a=b")
    world.kubectl(
        "patch", "app", "app", "--type=merge", "-p", '{"spec":{"kubernetes":{"enabled":true}}}'
    )
    world.until(lambda: len(history(world)) == 3)
    last, middle, _ = history(world)
    assert (last["user"], last["manager"]) == ("system-admin", "kubectl-patch")
    assert last["fields"][0]["field"] == "kubernetes.enabled"
    assert middle["manager"] == "rdd"
    assert {"field": "containerEngine.name", "old": "moby", "new": "containerd"} in middle["fields"]
    assert "secret" not in json.dumps(history(world))
    lines = world.rdd("history").out.splitlines()
    assert lines[0].split() == ["TIME", "USER", "MANAGER", "PROPERTY", "OLD", "NEW"]
    assert any("http://***@proxy:3128" in line for line in lines)


def test_quick_changes_are_all_recorded(world: World) -> None:
    world.until(lambda: history(world))
    for n in range(5):
        world.kubectl(
            *("patch", "app", "app", "--type=merge", "-p"),
            json.dumps({"spec": {"proxy": {"noProxy": [f"h{n}"]}}}),
        )
    world.until(lambda: len(history(world)) == 6)
    assert [c["fields"][0]["new"] for c in history(world)[:5]] == [
        [f"h{n}"] for n in (4, 3, 2, 1, 0)
    ]


def test_a_client_can_neither_drop_nor_forge_changes(world: World) -> None:
    world.until(lambda: history(world))
    forged = json.dumps([{"id": "x", "time": "2026-01-01T00:00:00Z", "user": "u", "manager": "m"}])
    world.kubectl(
        "annotate", "--overwrite", "app", "app", f"app.rancherdesktop.io/changes={forged}"
    )
    world.kubectl("annotate", "app", "app", "app.rancherdesktop.io/changes-")
    change(world, "proxy.noProxy=z")
    assert [entry["user"] for entry in history(world)] == ["system-admin"] * 2


def test_undo_takes_the_last_change_back_and_again(world: World) -> None:
    change(world, "containerEngine.name=containerd", "proxy.noProxy=x")
    assert "containerEngine.name" in world.rdd("undo", "--dry-run").out
    assert spec(world)["containerEngine"]["name"] == "containerd"
    count = len(history(world))
    done = world.rdd("undo", "--wait=false")
    assert ["containerEngine.name", "containerd", "moby"] in [
        line.split() for line in done.out.splitlines()
    ]
    assert spec(world)["containerEngine"]["name"] == "moby"
    assert "noProxy" not in (spec(world).get("proxy") or {})
    world.until(lambda: len(history(world)) == count + 1)
    world.rdd("undo", "--wait=false")
    assert spec(world)["containerEngine"]["name"] == "containerd"


def test_undo_of_a_first_value_restores_the_default(world: World) -> None:
    default = spec(world)["virtualMachine"]["memory"]
    change(world, "virtualMachine.cpus=1")
    world.rdd("undo", "--wait=false")
    found = world.rdd("get", "virtualMachine.cpus", "-o", "json").json()
    assert found["source"].startswith("default")
    assert spec(world)["virtualMachine"]["memory"] == default


def test_undo_cannot_restore_what_was_masked(world: World) -> None:
    change(world, "proxy.httpProxy=http://me:secret@proxy:3128")
    change(world, "proxy.httpProxy=http://other:3128")
    done = world.try_rdd("undo")
    assert done.code == 1
    assert "contains credentials or is too long and was not recorded" in done.last[1]
    assert spec(world)["proxy"]["httpProxy"] == "http://other:3128"


def test_undo_of_the_creation_names_the_right_command(world: World) -> None:
    world.until(lambda: history(world))
    done = world.try_rdd("undo")
    assert (done.code, "`rdd delete` deletes it" in done.last[1]) == (1, True)
