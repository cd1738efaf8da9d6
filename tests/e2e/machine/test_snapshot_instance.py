# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a whole instance: its database and its machines, here and in another instance."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.machine.limavm_parts import PLAIN, VmHome
from tests.e2e.machine.limavm_parts import vm_home as open_vm_home
from tests.e2e.service.service_world import World

from rdd.vm.instance_dir import LimaHome

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a machine of the type host needs root here"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def vm_home(rdd_script: Path, kubectl: Path, dockerd_path: Path) -> Iterator[VmHome]:
    for made in open_vm_home(rdd_script, kubectl, dockerd_path):
        made.world.rdd("service", "stop")
        made.world.rdd("service", "start", "--controllers=limavm,snapshot")
        yield made


def snapshots(world: World) -> dict[str, str]:
    found: list[dict[str, Any]] = world.rdd("snapshot", "ls", "-o", "json").json()
    return {one["name"]: one["state"] for one in found}


def value(world: World) -> str:
    return world.kubectl("get", "cm", "kept", "-o", "jsonpath={.data.a}")


def test_whole_instance_is_restored_here_and_elsewhere(vm_home: VmHome, tmp_path: Path) -> None:
    world = vm_home.world
    vm_home.create("vm", "--start", text=PLAIN)
    data = vm_home.directory("vm").path / "data"
    data.write_text("old")
    world.kubectl("create", "configmap", "kept", "--from-literal=a=old")
    world.rdd("snapshot", "create", "whole", "--scope", "instance", "--description", "all of it")
    vm_home.until_reason("vm", "Started")
    (one,) = world.rdd("snapshot", "ls", "-o", "json").json()
    assert (one["scope"], one["state"]) == ("instance", "Complete")

    # Through the API it is refused, and so is another name; nothing changes.
    patch = '{"metadata":{"annotations":{"rdd.rancherdesktop.io/restoreRequested":"1"}}}'
    world.kubectl("patch", "snapshot", "whole", "--type=merge", "-p", patch)

    def outcome() -> str:
        return world.kubectl(
            "get", "snapshot", "whole", "-o", "jsonpath={.status.conditions[?(@.type=='Restored')]}"
        )

    world.until(lambda: "rdd snapshot restore whole" in outcome())
    refused = world.try_rdd("snapshot", "restore", "whole", "--as", "vm2")
    assert "has no other name" in refused.last[1]

    # A database that was changed is refused before anything is stopped.
    (database,) = world.instance.snapshot_dirs[0].glob("whole/db/state.db")
    content, pid = database.read_bytes(), world.pid()
    database.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    refused = world.try_rdd("snapshot", "restore", "whole")
    assert (refused.code, "nothing was restored" in refused.last[1]) == (1, True), refused
    assert (world.pid(), value(world)) == (pid, "old")
    database.write_bytes(content)

    data.write_text("new")
    world.kubectl("create", "configmap", "kept2")
    world.kubectl("patch", "cm", "kept", "-p", '{"data":{"a":"new"}}')
    vm_home.create("extra", text=PLAIN)
    world.rdd("snapshot", "create", "later", "--scope", "namespace/default")
    before = int(world.kubectl("get", "cm", "kept", "-o", "jsonpath={.metadata.resourceVersion}"))

    world.rdd("snapshot", "restore", "whole")
    assert (data.read_text(), value(world)) == ("old", "old")
    vm_home.until_reason("vm", "Started")
    assert [vm_home.lima.names(), snapshots(world)] == [
        ["vm"],
        {"whole": "Complete", "later": "Complete"},  # one that is newer than the database
    ]
    assert "kept2" not in world.kubectl("get", "cm", "-o", "name")
    world.kubectl("create", "configmap", "after")
    after = world.kubectl("get", "cm", "after", "-o", "jsonpath={.metadata.resourceVersion}")
    assert int(after) > before
    (kept,) = world.rdd("trash", "ls", "-o", "json").json()
    assert kept["content"] == "database, machine extra, machine vm"

    archive = tmp_path / "whole.rdd"
    world.rdd("snapshot", "export", "whole", str(archive))
    other = world.named("t3")
    try:
        other.rdd("snapshot", "import", str(archive), "--name", "moved")
        other.rdd("snapshot", "restore", "moved")
        home = LimaHome(other.instance.lima_home)
        assert not json.loads(other.kubectl("get", "limavm", "vm", "-o", "json"))["spec"]["running"]
        other.rdd("limavm", "start", "vm")
        assert (home.directory("vm").path / "data").read_text() == "old"
        assert value(other) == "old"
        assert snapshots(other) == {"moved": "Complete", "whole": "ContentMissing"}
    finally:
        other.try_rdd("svc", "delete", "--no-trash")
    vm_home.until_reason("vm", "Started")  # the other one has its own
