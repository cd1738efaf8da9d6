# SPDX-License-Identifier: Apache-2.0
"""Damaged objects of rdd's own kinds, with all controllers: the daemon starts, the rest works."""

import json
import sqlite3
from contextlib import closing

import pytest
from tests.e2e.service.service_world import World
from tests.programs import run_program

_DIGEST = f"sha256:{'0' * 64}"
OBJECTS = [
    ("rdd.rancherdesktop.io", "Resource", "file",
     {"url": "https://example.invalid/file", "digest": _DIGEST}, False),
    ("rdd.rancherdesktop.io", "URLMonitor", "page",
     {"url": "https://example.invalid/page", "suspended": True}, False),
    ("rdd.rancherdesktop.io", "Checkout", "copy",
     {"resource": "none", "readonly": True}, True),
    ("rdd.rancherdesktop.io", "Snapshot", "saved",
     {"scope": {"kind": "Namespace", "name": "team"}}, False),
    ("app.rancherdesktop.io", "App", "app", {"running": False}, False),
    ("lima.rancherdesktop.io", "LimaVM", "vm",
     {"templateRef": {"name": "none"}, "running": False}, True),
]  # fmt: skip


def damage(world: World, name: str, kind: str) -> str:
    """Change the newest value of an object; return its key."""
    with closing(sqlite3.connect(world.instance.database, isolation_level=None)) as database:
        (key,) = database.execute(
            "SELECT DISTINCT key FROM log WHERE key LIKE ?", (f"%/{kind}s/%{name}",)
        ).fetchone()
        changed = database.execute(
            "UPDATE log SET value = substr(value, 1, 20) || x'00' || substr(value, 22) "
            "WHERE id = (SELECT max(id) FROM log WHERE key = ?)",
            (key,),
        )
        assert changed.rowcount == 1
    return str(key)


def attempt(world: World, *words: str) -> str:
    done = run_program(
        [world.kubectl_path, "--kubeconfig", str(world.instance.config), *words],
        env=world.environment(),
    )
    return done.stdout + done.stderr


@pytest.fixture
def damaged(world: World) -> dict[str, str]:
    """Start with one object of each kind that can be created here, and damage all of them."""
    world.rdd("svc", "start")
    world.kubectl("create", "namespace", "team")
    created = {}
    for group, kind, name, spec, is_namespaced in OBJECTS:
        body = {
            "apiVersion": f"{group}/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, **({"namespace": "default"} if is_namespaced else {})},
            "spec": spec,
        }
        file = world.home / f"{kind}.json"
        file.write_text(json.dumps(body))
        text = attempt(world, "apply", "-f", str(file))
        if "created" in text or "configured" in text:
            created[kind.lower()] = name
    world.rdd("svc", "stop")
    return {kind: damage(world, name, kind) for kind, name in created.items()}


def test_daemon_starts_without_damaged_objects_of_its_own_kinds(
    world: World, damaged: dict[str, str]
) -> None:
    assert {"resource", "urlmonitor", "checkout", "app"} <= damaged.keys(), damaged
    world.rdd("svc", "start")
    for kind, key in damaged.items():
        name = key.rpartition("/")[2]
        text = attempt(world, "get", kind, name)
        assert "is damaged; restore or remove it" in text, (kind, text)
    world.write_first()
    assert "Traceback" not in world.log()
    assert "ObjectsDamaged" in world.try_rdd("doctor", "-o", "json").out
    listed = [one["name"] for one in world.rdd("svc", "quarantine", "ls", "-o", "json").json()]
    assert len(listed) == len(damaged)
    world.rdd("svc", "quarantine", "rm", *listed)
    for kind, key in damaged.items():
        assert "is damaged" not in attempt(world, "get", kind, key.rpartition("/")[2])
    assert world.rdd("svc", "quarantine", "ls", "-o", "json").json() == []
