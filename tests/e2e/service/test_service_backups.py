# SPDX-License-Identifier: Apache-2.0
"""Backups, restores and the quarantine of the real daemon."""

import os
import sqlite3
from contextlib import closing

from tests.e2e.service.service_world import World

from rdd.api import names


def damage(world: World, *keys: str) -> None:
    """Flip bits of objects, as a bad disk does."""
    with closing(sqlite3.connect(world.instance.database, isolation_level=None)) as connection:
        for key in keys:
            changed = connection.execute(
                "UPDATE log SET value = substr(value, 1, 20) || x'00' || substr(value, 22) "
                "WHERE id = (SELECT max(id) FROM log WHERE key = ?)",
                (f"/registry/{key}",),
            )
            assert changed.rowcount == 1, key


def test_backup_and_restore_of_a_running_daemon(world: World) -> None:
    world.rdd("svc", "start")
    world.write_first("before")
    copy = world.home / "copy.db"
    done = world.rdd("svc", "backup", str(copy))
    assert f'"{copy}" is a copy of the database' in done.messages[-1]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert world.try_rdd("svc", "backup", str(copy)).code == 1  # never overwrites
    world.write_first("after")
    version = int(
        world.kubectl("get", "configmap", "after", "-o", "jsonpath={.metadata.resourceVersion}")
    )
    done = world.rdd("svc", "restore", str(copy))
    assert done.messages[-1] == f"{world.title} is ready"
    found = world.kubectl("get", "configmaps", "-o", "name")
    assert "configmap/before" in found
    assert "configmap/after" not in found
    world.write_first("later")
    later = int(
        world.kubectl("get", "configmap", "later", "-o", "jsonpath={.metadata.resourceVersion}")
    )
    assert later > version  # revisions are never assigned twice
    assert len(list(world.instance.dir.glob("db-*"))) == 1  # the replaced one is kept


def test_restore_rejects_what_is_no_backup(world: World) -> None:
    world.rdd("svc", "create")
    assert "there is no backup in" in world.try_rdd("svc", "restore").last[1]
    bad = world.home / "bad.db"
    bad.write_bytes(b"SQLite format 3\0" + bytes(5000))
    done = world.try_rdd("svc", "restore", str(bad))
    assert (done.code, "nothing was changed" in done.last[1]) == (1, True)
    assert 'there is no backup "none"' in world.try_rdd("svc", "restore", "none").last[1]


def test_damaged_objects_are_listed_restored_and_removed(world: World) -> None:
    world.rdd("svc", "start")
    for name in ("a", "b"):
        world.write_first(name)
    world.rdd("svc", "backup")
    world.kubectl("create", "namespace", "team")
    world.rdd("svc", "stop")
    crd = f"apiextensions.k8s.io/customresourcedefinitions/apps.app.{names.DOMAIN}"
    damaged = ["configmaps/default/a", "configmaps/default/b", "namespaces/team"]
    damage(
        world,
        *damaged,
        crd,
        "namespaces/rdd-system",
        "leases/rdd-system/controller-app",
        "clusterroles/view",
    )
    world.rdd("svc", "start")
    world.write_first("c")
    listed = world.rdd("svc", "quarantine", "ls", "-o", "json").json()
    assert {item["name"]: bool(item["source"]) for item in listed} == {
        **dict.fromkeys(damaged[:2], True),
        "namespaces/team": False,
        "namespaces/rdd-system": True,
    }
    doctor = world.try_rdd("doctor", "-o", "json")
    assert doctor.code == 1
    (finding,) = [found for found in doctor.json() if found["name"] == "stored-objects"]
    assert "configmaps/default/a" in finding["evidence"]
    world.rdd("svc", "quarantine", "restore", "configmaps/default/a", "namespaces/rdd-system")
    assert (
        "no undamaged value"
        in (world.try_rdd("svc", "quarantine", "restore", "namespaces/team").last[1])
    )
    world.rdd("svc", "quarantine", "rm", "namespaces/team", "configmaps/default/b")
    assert world.kubectl("get", "configmap", "a", "-o", "jsonpath={.data.a}") == "b"
    world.kubectl("create", "namespace", "team")
    assert world.rdd("svc", "quarantine", "ls", "-o", "json").json() == []
    assert "is not in quarantine" in world.try_rdd("svc", "quarantine", "rm", "x/y").last[1]


def test_another_version_makes_a_copy_and_errors_name_the_newest(world: World) -> None:
    world.rdd("svc", "start")
    world.rdd("svc", "stop")
    world.instance.version_file.write_text("0.0.1\n")
    world.rdd("svc", "start")
    world.write_first("lost")
    version = ("-o", "jsonpath={.metadata.resourceVersion}")
    lost = int(world.kubectl("get", "configmap", "lost", *version))
    world.rdd("svc", "stop")
    (copy,) = world.instance.backup_dir.iterdir()
    assert copy.name.endswith("-upgrade.db")
    os.truncate(world.instance.database, 9000)
    done = world.try_rdd("svc", "start")
    assert done.code == 1
    assert f"rdd service restore {copy.name}" in done.err
    world.rdd("svc", "restore")
    world.rdd("svc", "start")
    world.write_first("later")  # its revision is not one that the unreadable database had assigned
    assert int(world.kubectl("get", "configmap", "later", *version)) > lost
