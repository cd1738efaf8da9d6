# SPDX-License-Identifier: Apache-2.0
"""Databases of other versions: older ones become current, newer ones are refused with advice."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.e2e.service.service_world import World
from tests.unit.store.old_files import make_old_database

from rdd.store.sqlite import backup, schema


def objects_of(path: Path, kind: str) -> dict[str, Any]:
    """Return the newest stored values of a kind in the team's namespace, by name."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        prefix = f"/registry/{kind}/team/"
        rows = connection.execute(
            "SELECT key, value, max(id) FROM log WHERE key LIKE ? || '%' GROUP BY key", (prefix,)
        ).fetchall()
    return {key.removeprefix(prefix): json.loads(b"{" + value) for key, value, _ in rows if value}


def write_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def get(world: World, *words: str) -> Any:
    return json.loads(world.kubectl("get", *words, "-o", "json"))


def watch(world: World, after: str) -> list[Any]:
    """Return the events of the team's ConfigMap `counted` after a revision."""
    path = "/api/v1/namespaces/team/configmaps?watch=1&timeoutSeconds=1&resourceVersion="
    events = [json.loads(line) for line in world.kubectl("get", "--raw", path + after).splitlines()]
    return [event for event in events if event["object"].get("code") or named(event) == "counted"]


def named(event: Any) -> str:
    return str(event["object"]["metadata"].get("name"))


def test_database_of_0_1_0_becomes_current(world: World) -> None:
    world.rdd("svc", "create")
    database = world.instance.database
    database.parent.mkdir(mode=0o700)
    make_old_database("0.1.0", database)
    stored = {kind: objects_of(database, kind) for kind in ("configmaps", "secrets", "roles")}
    last = backup.current_revision(database)
    world.rdd("svc", "start")

    (copy,) = world.instance.backup_dir.iterdir()
    assert copy.name.endswith("-format-1.db")
    assert backup.verify(copy).version == 1
    assert backup.verify(copy).revision == last
    for kind, expected in stored.items():
        items = get(world, kind, "-n", "team")["items"]
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
        assert {name: uids[name] for name in expected} == {
            name: value["metadata"]["uid"] for name, value in expected.items()
        }
    assert get(world, "cm", "counted", "-n", "team")["data"] == {"count": "3"}
    app = get(world, "app", "app")["spec"]
    assert (app["running"], app["containerEngine"]["name"]) == (False, "containerd")
    assert get(world, "limavm", "machine", "-n", "team")["spec"]["running"] is False

    # Roles have what this version grants, and what the user had added.
    rules = get(world, "clusterrole", "system:basic-user")["rules"]
    groups = {group for rule in rules for group in rule["apiGroups"]}
    assert groups >= {"example.com", "authorization.k8s.io"}
    assert get(world, "clusterrole", "rdd:viewer")["rules"]

    world.kubectl("patch", "cm", "counted", "-n", "team", "-p", '{"data":{"count":"4"}}')
    found = get(world, "cm", "counted", "-n", "team")
    assert int(found["metadata"]["resourceVersion"]) > last
    first = get(world, "role", "readers", "-n", "team")["metadata"]["resourceVersion"]
    events = watch(world, first)  # from before the upgrade
    if events[0]["type"] == "ERROR":
        assert events[0]["object"]["code"] == 410
    else:
        assert [event["object"]["data"]["count"] for event in events] == ["2", "3", "4"]


def test_newer_database_is_refused_with_the_command_that_helps(world: World) -> None:
    world.rdd("svc", "start")
    world.write_first("before")
    world.rdd("svc", "backup")
    world.write_first("after")
    after = get(world, "cm", "after")["metadata"]["resourceVersion"]
    world.rdd("svc", "stop")
    (copy,) = world.instance.backup_dir.iterdir()
    database = world.instance.database
    write_version(database, schema.VERSION + 1)
    newer = copy.with_name("99990101T000000Z-daily.db")  # made by the newer version
    newer.write_bytes(database.read_bytes())
    before = database.read_bytes()

    command = f"service restore {copy.name}"
    refused = world.try_rdd("svc", "start")
    assert refused.code == 1
    assert "was written by a newer version" in refused.err
    assert "Update this program" in refused.err
    assert f"rdd {command}" in refused.err
    (finding,) = [
        each for each in world.try_rdd("doctor", "-o", "json").json() if each["name"] == "database"
    ]
    assert (finding["reason"], finding["nextStep"]) == ("NewerFormat", f"rdd {command}")
    for words in (("svc", "backup"), ("svc", "restore", newer.name)):
        refused = world.try_rdd(*words)
        assert (refused.code, "was written by a newer version" in refused.last[1]) == (1, True)
    assert database.read_bytes() == before
    assert set(world.instance.backup_dir.iterdir()) == {copy, newer}

    world.rdd(*command.split())
    world.rdd("svc", "start")
    assert "after" not in world.kubectl("get", "cm", "-o", "name")
    world.write_first("later")
    assert int(get(world, "cm", "later")["metadata"]["resourceVersion"]) > int(after)
    (event,) = watch(world, after)  # what the restore has undone is in no history
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
