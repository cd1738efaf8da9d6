# SPDX-License-Identifier: Apache-2.0
"""Inspection, processes, files, backups, disk usage and pruning of a real engine."""

import io
import json
import tarfile
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from tests.controllers.containers.engine_parts import Dockerd
from tests.controllers.containers.engine_world import World

from rdd.kinds.container import Container
from rdd.kinds.image import Image


@pytest.fixture
async def client(world: World) -> AsyncIterator[ClientSession]:
    async with world.session() as session:
        yield session


async def get(client: ClientSession, path: str, status: int = 200) -> Any:
    async with client.get(f"/engine/{path}") as answer:
        body = await answer.read()
        assert answer.status == status, body
        return json.loads(body) if status == 200 else body.decode()


async def raw(client: ClientSession, path: str) -> tuple[Any, bytes]:
    async with client.get(f"/engine/{path}") as answer:
        body = await answer.read()
        assert answer.status == 200, body
        return answer.headers, body


def rooted(**files: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


async def test_inspect_shows_everything_and_details_no_secrets(
    docker: Dockerd, client: ClientSession
) -> None:
    id_ = docker.run(
        "open",
        Env=["PASSWORD=hunter2", "EMPTY="],
        Labels={"token": "hunter2"},
        Healthcheck={"Test": ["CMD", "echo", "hunter2"]},
        Cmd=["sleep", "1000"],
    )
    found = await get(client, f"inspect/{id_}")
    assert "PASSWORD=hunter2" in found["Config"]["Env"]
    shown = await get(client, f"details/{id_}")
    assert "hunter2" not in json.dumps(shown)
    assert "PASSWORD" in shown["Config"]["Env"]
    assert shown["State"]["Status"] == "running"
    assert shown["Id"] == id_


async def test_top_lists_processes(docker: Dockerd, client: ClientSession) -> None:
    id_ = docker.run("top", Cmd=["sleep", "1000"])
    found = await get(client, f"top/{id_}")
    command = found["titles"].index("CMD")
    assert [row[command] for row in found["processes"]] == ["sleep 1000"]
    docker.post(id_, "stop")
    assert "not running" in await get(client, f"top/{id_}", 409)


@pytest.mark.parametrize("endpoint", ["inspect", "details", "top", "files", "archive"])
async def test_unknown_and_invalid_containers(client: ClientSession, endpoint: str) -> None:
    assert await get(client, f"{endpoint}/{'0' * 64}", 404)
    assert "invalid container ID" in await get(client, f"{endpoint}/..%2F..", 400)
    async with client.post(f"/engine/{endpoint}/{'0' * 64}") as answer:
        assert answer.status == 405


async def test_files_of_containers_running_and_stopped(
    world: World, docker: Dockerd, client: ClientSession
) -> None:
    script = (
        "echo hello > /tmp/a; echo > '/tmp/two words'; echo x > /tmp/.hidden;"
        "echo y > /tmp/é; echo z > '/tmp/<b>\"&amp;'; printf %0200d 5 > /tmp/$(printf %0200d 7);"
        "true; sleep 1000"
    )
    id_ = docker.run(
        "files",
        Cmd=["sh", "-c", f"cat /dev/null > /tmp/e; {script}"],
        HostConfig={"Binds": ["written:/tmp"]},
    )

    async def is_written() -> bool:
        names = await get(client, f"files/{id_}?path=/tmp")
        return any(entry["size"] == 200 for entry in names["entries"])

    await world.until(is_written)
    for state in ("running", "stopped"):
        if state == "stopped":
            docker.post(id_, "stop")
        found = await get(client, f"files/{id_}?path=/tmp")
        assert not found["truncated"]
        by_name = {entry["name"]: entry for entry in found["entries"]}
        assert set(by_name) == {
            "a", "e", "two words", ".hidden", "é", '<b>"&amp;', f"{'0' * 199}7",
        }  # fmt: skip
        assert by_name["a"]["size"] == 6
        assert by_name["a"]["mode"] == "-rw-r--r--"
        root = await get(client, f"files/{id_}")
        assert {"bin", "tmp"} <= {entry["name"] for entry in root["entries"]}
        assert root["entries"][0]["type"] == "directory"
        headers, body = await raw(client, f"archive/{id_}?path=/tmp/a")
        assert body == b"hello\n"
        assert headers["Content-Length"] == "6"
        assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''a"
        _, body = await raw(client, f"archive/{id_}?path={quote('/tmp/two words')}")
        assert body == b"\n"
        headers, body = await raw(client, f"archive/{id_}?path=/tmp")
        with tarfile.open(fileobj=io.BytesIO(body)) as tar:
            assert "tmp/a" in tar.getnames()
        headers, body = await raw(client, f"archive/{id_}?path=/tmp/a&format=tar")
        assert headers["Content-Type"] == "application/x-tar"
        assert await get(client, f"files/{id_}?path=/none", 404)
        assert await get(client, f"archive/{id_}?path=/none", 404)
        assert "not a directory" in await get(client, f"files/{id_}?path=/tmp/a", 400)
        assert "absolute" in await get(client, f"files/{id_}?path=tmp", 400)
        assert await get(client, f"archive/{id_}?path=/tmp&format=zip", 400)


async def test_links_are_followed(docker: Dockerd, client: ClientSession) -> None:
    docker.import_image("links", "latest")
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, link in (("to-dir", "real"), ("to-file", "/real/f"), ("loop", "loop")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
        info = tarfile.TarInfo("real/f")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"ok"))
    query = "fromSrc=-&repo=linked&tag=latest"
    docker.call("POST", f"/images/create?{query}", target.getvalue(), raw=True)
    id_ = docker.create("linked", Image="linked:latest")
    found = await get(client, f"files/{id_}?path=/to-dir")
    assert [entry["name"] for entry in found["entries"]] == ["f"]
    root = await get(client, f"files/{id_}?path=/")
    links = {e["name"]: e["target"] for e in root["entries"] if e["type"] == "symlink"}
    assert links["to-dir"] == "real"
    assert (await raw(client, f"archive/{id_}?path=/to-file"))[1] == b"ok"
    assert (await client.get(f"/engine/archive/{id_}?path=/loop")).status in (400, 404, 500)


async def test_volume_is_browsed_backed_up_and_restored(
    world: World, docker: Dockerd, client: ClientSession
) -> None:
    docker.call("POST", "/volumes/create", {"Name": "data"})
    docker.call("POST", "/volumes/create", {"Name": "copy"})
    assert (await get(client, "volume-files/data"))["entries"] == []
    archive = rooted(**{"a.txt": b"one", "sub/b.txt": b"two"})
    async with client.put("/engine/volume-archive/data", data=archive) as answer:
        assert answer.status == 200, await answer.text()
    found = await get(client, "volume-files/data")
    assert [(e["name"], e["type"]) for e in found["entries"]] == [
        ("sub", "directory"),
        ("a.txt", "file"),
    ]
    assert [e["name"] for e in (await get(client, "volume-files/data?path=/sub"))["entries"]] == [
        "b.txt"
    ]
    assert (await raw(client, "volume-archive/data?path=/sub/b.txt"))[1] == b"two"
    _, backup = await raw(client, "volume-archive/data")
    with tarfile.open(fileobj=io.BytesIO(backup)) as tar:
        names = tar.getnames()
    assert any(name.endswith("sub/b.txt") for name in names)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(backup), 1000):
            yield backup[start : start + 1000]

    async with client.put("/engine/volume-archive/copy", data=pieces()) as answer:
        assert answer.status == 200, await answer.text()
    assert (await raw(client, "volume-archive/copy?path=/a.txt"))[1] == b"one"
    # A container that uses the volume is no obstacle.
    mount = {"HostConfig": {"Binds": ["data:/mnt/data:ro"]}}
    docker.run("user", **mount)
    assert (await raw(client, "volume-archive/data?path=/a.txt"))[1] == b"one"
    changed = rooted(**{"a.txt": b"changed"})
    async with client.put("/engine/volume-archive/data", data=changed) as answer:
        assert answer.status == 200, await answer.text()
    assert (await raw(client, "volume-archive/data?path=/a.txt"))[1] == b"changed"
    # Nothing is left, and nothing was shown.
    listed = docker.call("GET", "/containers/json?all=1")
    assert [each["Names"] for each in listed] == [["/user"]]
    assert {c["status"]["name"] for c in await world.list(Container) if "status" in c} <= {"user"}
    assert all("Labels" not in i for i in await world.list(Image))


async def test_malformed_restore_changes_nothing(docker: Dockerd, client: ClientSession) -> None:
    docker.call("POST", "/volumes/create", {"Name": "kept"})
    async with client.put("/engine/volume-archive/kept", data=b"no tar at all") as answer:
        assert answer.status >= 400
    async with client.put("/engine/volume-archive/kept") as answer:
        assert answer.status == 400
    async with client.put("/engine/volume-archive/none", data=rooted(a=b"")) as answer:
        assert answer.status == 404
    assert (await get(client, "volume-files/kept"))["entries"] == []
    assert await get(client, "volume-files/none", 404)
    assert await get(client, "volume-files/", 400)
    assert docker.call("GET", "/containers/json?all=1") == []


async def test_usage_and_prune(docker: Dockerd, client: ClientSession) -> None:
    docker.call("POST", "/volumes/create", {"Name": "unused"})
    docker.call("POST", "/volumes/create", {"Name": "used"})
    kept = docker.run("kept", HostConfig={"Binds": ["used:/v"]})
    done = docker.create("done")
    found = await get(client, "usage")
    volumes = {each["name"]: each for each in found["volumes"]["items"]}
    assert volumes["used"]["usedBy"] == ["kept"]
    assert volumes["unused"]["usedBy"] == []
    assert found["containers"]["count"] == 2
    assert found["images"]["count"] >= 1
    async with client.post("/engine/prune?what=containers") as answer:
        assert (await answer.json())["deleted"] == [done]
    async with client.post("/engine/prune?what=volumes") as answer:
        assert (await answer.json())["deleted"] == []  # named ones stay
    async with client.post("/engine/prune?what=volumes&all=true") as answer:
        assert (await answer.json())["deleted"] == ["unused"]
    assert {v["Name"] for v in docker.call("GET", "/volumes")["Volumes"]} == {"used"}
    assert [c["Id"] for c in docker.call("GET", "/containers/json")] == [kept]
    for wrong in (
        "", "?what=all", "?what=images&all=maybe", "?what=images&until=soon",
        "?what=images&until=-1h", "?what=images&label=", "?what=images&label=!a=b",
    ):  # fmt: skip
        async with client.post(f"/engine/prune{wrong}") as answer:
            assert answer.status == 400
        await get(client, f"prune{wrong}", 400)
    for body in ("[]", '{"items": [{"kind": "images"}]}', '{"items": [{"kind": "x", "id": "y"}]}'):
        async with client.post("/engine/prune", data=body) as answer:
            assert answer.status == 400
    async with client.post(
        "/engine/prune", json={"items": [{"kind": "volumes", "id": "../containers/x"}]}
    ) as answer:
        assert answer.status == 400
    async with client.put("/engine/prune?what=images") as answer:
        assert answer.status == 405


async def test_prune_removes_exactly_what_its_preview_lists(
    docker: Dockerd, client: ClientSession
) -> None:
    old = docker.create("old", Labels={"team": "a"}, HostConfig={"Binds": ["data:/v"]})
    docker.create("other", Labels={"team": "b"})
    query = "prune?what=containers&what=volumes&all=true&label=team=a"
    plan = await get(client, query)
    assert [(item["kind"], item["name"]) for item in plan["items"]] == [("containers", "old")]
    assert (await get(client, "prune?what=containers&until=1h"))["items"] == []
    everything = await get(client, "prune?what=containers&what=volumes&what=images&all=true")
    # The volume and the image are used only by containers that go before them.
    kinds = [item["kind"] for item in everything["items"]]
    assert kinds == ["containers", "containers", "images", "volumes"]
    names = {item["name"] for item in everything["items"]}
    assert {"old", "other", "data", "busybox:latest"} <= names
    image = next(item for item in everything["items"] if item["kind"] == "images")
    assert everything["bytes"] >= image["bytes"] > 0

    docker.create("later")  # after the preview, with the image
    docker.post(old, "start")
    async with client.post("/engine/prune?all=true", json=everything) as answer:
        assert answer.status == 200
        done = await answer.json()
    left = {c["Names"][0] for c in docker.call("GET", "/containers/json?all=1")}
    assert left == {"/old", "/later"}
    kept = {item["name"]: item["reason"] for item in done["kept"]}
    assert set(kept) == {"old", "data", "busybox:latest"}
    assert "in use" in kept["data"]


async def test_prune_frees_the_bytes_that_it_reports(
    docker: Dockerd, client: ClientSession
) -> None:
    id_ = docker.run("full", Cmd=["dd", "if=/dev/zero", "of=/x", "bs=1M", "count=3"])
    docker.post(id_, "wait")
    plan = await get(client, "prune?what=containers")
    assert plan["bytes"] >= 3 << 20
    async with client.post("/engine/prune", json=plan) as answer:
        done = await answer.json()
    assert done["deleted"] == [id_]
    assert done["kept"] == []
    assert done["reclaimed"] == plan["bytes"]
