# SPDX-License-Identifier: Apache-2.0
"""Requests for containers, images and volumes, against a real engine and a real registry."""

import asyncio
import base64
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.containers.engine_parts import Dockerd, registry, silent_port
from tests.controllers.containers.engine_world import NAMESPACE, World, open_world, running_world

from rdd.api import errors
from rdd.apiserver.http.request import Request
from rdd.controllers.containers.container_create import REQUEST
from rdd.controllers.containers.requests import KEPT_S
from rdd.kinds.container import Container, ContainerCreateRequest
from rdd.kinds.image import Image, ImagePullRequest, ImagePushRequest, ImageScanRequest
from rdd.kinds.volume import Volume, VolumeCreateRequest
from rdd.runtime import resource_of

PASSWORD = "open-sesame"
BCRYPT = "$2b$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO"
"""The hash of PASSWORD, of the only type that the registry accepts."""


@pytest.fixture(scope="module")
def hub(
    docker: Dockerd, real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Run a registry without authentication."""
    with registry(real_part, docker, tmp_path_factory.mktemp("hub")) as address:
        yield address


async def image_named(world: World, tag: str) -> str:
    """Wait for the mirror of a tag, and return its name."""
    return str((await world.image(tag))["metadata"]["name"])


# -- containers


async def test_container_is_created_and_started(world: World, docker: Dockerd) -> None:
    await world.request(
        ContainerCreateRequest,
        "new",
        image="busybox:latest",
        name="requested",
        path="sh",
        args=["-c", "sleep 1000"],
        labels={"mine": "yes"},
        ports=[
            {"name": "80/tcp", "bindings": [{"hostIP": "127.0.0.1", "hostPort": "18081"}]},
            {"name": "81/tcp"},
        ],
    )
    assert await world.outcome(ContainerCreateRequest, "new") == ("Complete", "Completed", "")
    request = await world.get(ContainerCreateRequest, "new")
    id_ = request["status"]["name"]
    found = docker.inspect(id_)
    assert found["Name"] == "/requested"
    assert (found["Path"], found["Args"]) == ("sh", ["-c", "sleep 1000"])
    assert found["Config"]["Labels"]["mine"] == "yes"
    assert found["HostConfig"]["PortBindings"]["80/tcp"] == [
        {"HostIp": "127.0.0.1", "HostPort": "18081"}
    ]
    assert "81/tcp" in found["Config"]["ExposedPorts"]
    obj = await world.state(id_, "running")
    assert obj["status"]["name"] == "requested"


async def test_container_is_created_without_starting_it(world: World, docker: Dockerd) -> None:
    await world.request(
        ContainerCreateRequest, "new", image="busybox", path="true", state="created"
    )
    await world.outcome(ContainerCreateRequest, "new")
    id_ = (await world.get(ContainerCreateRequest, "new"))["status"]["name"]
    assert docker.inspect(id_)["State"]["Status"] == "created"


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param(
            {"image": "nowhere:1"}, "NotFound", "No such image: nowhere:1", id="missing image"
        ),
        pytest.param(
            {"image": "busybox", "path": "/no/such"}, "Invalid",
            "no such file or directory", id="cannot start",
        ),
        pytest.param(
            {"image": "busybox", "namespace": "other"}, "NotFound",
            'the engine has no namespace "other"', id="namespace",
        ),
        pytest.param(
            {"image": "busybox", "path": "true", "name": "/bad name/"}, "Invalid",
            "Invalid container name", id="bad name",
        ),
    ],
)  # fmt: skip
async def test_failed_create_request_leaves_nothing(
    spec: dict[str, Any], reason: str, message: str, world: World, docker: Dockerd
) -> None:
    await world.request(ContainerCreateRequest, "new", **spec)
    type_, found_reason, found = await world.outcome(ContainerCreateRequest, "new")
    assert (type_, found_reason) == ("Failed", reason)
    assert message in found
    assert "name" not in (await world.get(ContainerCreateRequest, "new"))["status"]
    assert docker.call("GET", "/containers/json?all=1") == []


async def test_rejects_container_name_in_use(world: World, docker: Dockerd) -> None:
    id_ = docker.create("taken")
    await world.state(id_, "created")
    message = 'container name "taken" is already in use'
    await world.rejected(ContainerCreateRequest, message, image="busybox", name="taken")
    with pytest.raises(errors.Forbidden, match=message):
        await world.request(ContainerCreateRequest, "second", image="busybox", name="taken")


async def test_rejects_invalid_ports(world: World) -> None:
    for name in ("80", "x/tcp", "80/http", "0/tcp", "65536/udp", "/tcp"):
        with pytest.raises(errors.Forbidden, match=r"spec\.ports: invalid port"):
            await world.request(
                ContainerCreateRequest, "x", image="busybox", ports=[{"name": name}]
            )
    ports = [{"name": "80/tcp", "bindings": [{"hostIP": "", "hostPort": "http"}]}]
    with pytest.raises(errors.Forbidden, match='invalid hostPort "http" of 80/tcp'):
        await world.request(ContainerCreateRequest, "x", image="busybox", ports=ports)


async def test_rejects_second_request_for_the_same_subject(docker: Dockerd, tmp_path: Path) -> None:
    docker.clear()
    async with open_world(tmp_path, docker.socket) as world:  # the requests stay pending
        await world.request(ContainerCreateRequest, "first", image="busybox", name="same")
        await waits_for_engine(world, ContainerCreateRequest, "first")
        with pytest.raises(errors.Forbidden, match="already requested by ContainerCreateR"):
            await world.request(ContainerCreateRequest, "second", image="busybox", name="same")
        await world.request(ImagePullRequest, "first", repoTag="alpine")
        await waits_for_engine(world, ImagePullRequest, "first")
        with pytest.raises(errors.Forbidden, match='"alpine:latest" is already requested'):
            await world.request(
                ImagePullRequest, "second", repoTag="docker.io/library/alpine:latest"
            )
        await world.request(ImagePushRequest, "first", imageRef="img-x")
        await waits_for_engine(world, ImagePushRequest, "first")
        with pytest.raises(errors.Forbidden, match="already"):
            await world.request(ImagePushRequest, "second", imageRef="img-x")
        await world.request(VolumeCreateRequest, "first", driver="local", name="same")
        await waits_for_engine(world, VolumeCreateRequest, "first")
        with pytest.raises(errors.Forbidden, match='volume name "same" is already requested'):
            await world.request(VolumeCreateRequest, "second", driver="local", name="same")


async def waits_for_engine(world: World, kind: Any, name: str) -> None:
    """Wait until a request reports that it waits: its controller's cache has it by then."""
    obj = await world.eventually(
        kind, name, lambda found: "WaitingForEngine" in str(found.get("status"))
    )
    assert all(c["status"] == "False" for c in obj["status"]["conditions"])


async def test_spec_of_a_request_is_immutable(world: World) -> None:
    await world.request(VolumeCreateRequest, "done", driver="local", name="done")
    await world.outcome(VolumeCreateRequest, "done")
    resource = resource_of(VolumeCreateRequest)
    with pytest.raises(errors.Forbidden, match="spec is immutable: create another request"):
        await world.client.patch(resource, "done", {"spec": {"name": "other"}}, namespace=NAMESPACE)
    labels = {"metadata": {"labels": {"a": "b"}}}
    await world.client.patch(resource, "done", labels, namespace=NAMESPACE)


async def test_request_waits_for_the_engine(docker: Dockerd, tmp_path: Path) -> None:
    docker.clear()
    async with open_world(tmp_path, docker.socket) as world:
        await world.request(VolumeCreateRequest, "early", driver="local", name="early")
        await waits_for_engine(world, VolumeCreateRequest, "early")
        await world.run_app()
        assert (await world.outcome(VolumeCreateRequest, "early"))[0] == "Complete"


async def test_container_created_before_a_crash_is_not_created_again(
    world: World, docker: Dockerd
) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def block(request: Request) -> None:
        if request.path.endswith("containercreaterequests/new/status"):
            reached.set()
            await never.wait()

    world.disturb = block
    await world.request(ContainerCreateRequest, "new", image="busybox", args=["sleep", "1000"])
    await asyncio.wait_for(reached.wait(), 120)
    await world.crash()
    world.disturb = None
    await world.start()
    assert (await world.outcome(ContainerCreateRequest, "new"))[0] == "Complete"
    (made,) = docker.call("GET", "/containers/json?all=1")
    request = await world.get(ContainerCreateRequest, "new")
    assert request["status"]["name"] == made["Id"]
    assert made["Labels"][REQUEST] == request["metadata"]["uid"]


async def test_request_is_removed_ten_minutes_after_its_end(
    docker: Dockerd, tmp_path: Path
) -> None:
    docker.clear()
    async with open_world(tmp_path, docker.socket) as world:
        shift_s = 0.0
        await world.restart(clock_shift=lambda: shift_s)
        await world.run_app()
        await world.request(VolumeCreateRequest, "done", driver="local", name="done")
        await world.outcome(VolumeCreateRequest, "done")
        shift_s = KEPT_S - 30
        await world.restart(clock_shift=lambda: shift_s)
        assert await world.get(VolumeCreateRequest, "done")
        shift_s = KEPT_S + 1
        await world.restart(clock_shift=lambda: shift_s)
        await world.gone(VolumeCreateRequest, "done")
        await world.until(lambda: has_volumes(world, 1))


# -- volumes


async def test_volume_is_created(world: World, docker: Dockerd) -> None:
    await world.request(VolumeCreateRequest, "new", driver="local", name="data")
    assert (await world.outcome(VolumeCreateRequest, "new"))[0] == "Complete"
    assert docker.call("GET", "/volumes/data")["Driver"] == "local"
    await world.request(VolumeCreateRequest, "unnamed", driver="local")
    assert (await world.outcome(VolumeCreateRequest, "unnamed"))[0] == "Complete"
    await world.until(lambda: has_volumes(world, 2))
    message = 'volume name "data" is already in use'
    await world.rejected(VolumeCreateRequest, message, driver="local", name="data")
    with pytest.raises(errors.Forbidden, match=message):
        await world.request(VolumeCreateRequest, "again", driver="local", name="data")


async def test_failed_volume_request_has_the_message_of_the_engine(world: World) -> None:
    await world.request(VolumeCreateRequest, "new", driver="local", name="x")
    type_, reason, message = await world.outcome(VolumeCreateRequest, "new")
    assert (type_, reason) == ("Failed", "Invalid")
    assert "volume name is too short" in message


async def has_volumes(world: World, count: int) -> bool:
    return len(await world.list(Volume)) == count


# -- images


async def test_image_is_pushed_and_pulled_through_a_registry(
    world: World, docker: Dockerd, hub: str
) -> None:
    tag = f"{hub}/some/app:1.0"
    docker.import_image(f"{hub}/some/app", "1.0", content="x" * 1000)
    name = await image_named(world, tag)
    await world.request(ImagePushRequest, "up", imageRef=name)
    assert await world.outcome(ImagePushRequest, "up") == ("Complete", "Completed", "")
    progress = (await world.get(ImagePushRequest, "up"))["status"]["progress"]
    assert progress["layersDone"] == progress["layers"] == 1
    await world.delete(Image, name)
    await world.gone(Image, name)
    await world.request(ImagePullRequest, "down", repoTag=tag)
    assert (await world.outcome(ImagePullRequest, "down"))[0] == "Complete"
    progress = (await world.get(ImagePullRequest, "down"))["status"]["progress"]
    assert progress["layersDone"] == 1
    assert progress["current"] == progress["total"] > 0
    assert "Downloaded newer image" in progress["message"]
    pulled = await world.find(
        Image, lambda obj: obj["status"].get("repoTag") == tag and obj["status"].get("repoDigests")
    )
    assert pulled["status"]["repoDigests"][0].startswith(f"{hub}/some/app@sha256:")


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        pytest.param("localhost:5000/no/such:1", "manifest unknown", id="missing"),
        pytest.param("localhost:1/x:1", "connection refused", id="no registry"),
    ],
)
async def test_failed_pull_has_the_message_of_the_engine(
    tag: str, message: str, world: World, hub: str
) -> None:
    await world.request(ImagePullRequest, "down", repoTag=tag)
    type_, _, found = await world.outcome(ImagePullRequest, "down")
    assert type_ == "Failed"
    assert message in found


async def test_rejects_invalid_image_reference(world: World) -> None:
    for bad in ("UPPER", "a b", "x:y:z", "", "x@sha256:1", "-x/y"):
        with pytest.raises(errors.Forbidden, match=r"spec\.repoTag: invalid image reference"):
            await world.request(ImagePullRequest, "down", repoTag=bad)


async def test_push_of_an_unknown_or_untagged_image_fails(world: World, docker: Dockerd) -> None:
    await world.request(ImagePushRequest, "up", imageRef="img-nowhere")
    assert await world.outcome(ImagePushRequest, "up") == (
        "Failed", "NotFound", 'image "img-nowhere" not found',
    )  # fmt: skip
    docker.import_image("", "", lonely="1")
    dangling = await world.find(Image, lambda obj: "repoTag" not in obj["status"])
    await world.request(ImagePushRequest, "up2", imageRef=dangling["metadata"]["name"])
    assert (await world.outcome(ImagePushRequest, "up2"))[1] == "NotTagged"


async def test_deleting_a_pull_cancels_it(world: World, docker: Dockerd) -> None:
    with silent_port(docker, 5002):
        await world.request(ImagePullRequest, "down", repoTag="localhost:5002/x:1")
        await world.until(lambda: is_pulling())
        await world.delete(ImagePullRequest, "down")
        await world.gone(ImagePullRequest, "down")
        await world.until(lambda: is_pulling(0))


async def is_pulling(count: int = 1) -> bool:
    return sum(task.get_name().startswith("rdd-request") for task in asyncio.all_tasks()) == count


# -- credentials


async def test_uses_credentials_of_the_user(
    docker: Dockerd, tmp_path: Path, real_part: Callable[[str], Path]
) -> None:
    docker.clear()
    htpasswd = tmp_path / "htpasswd"
    htpasswd.write_text(f"me:{BCRYPT}\n")
    with registry(real_part, docker, tmp_path / "hub", port=5001, htpasswd=htpasswd) as hub:
        docker.import_image(f"{hub}/private/app", "1", a="1")
        async with running_world(tmp_path, docker) as world:
            name = await image_named(world, f"{hub}/private/app:1")
            await world.request(ImagePushRequest, "anonymous", imageRef=name)
            type_, _, message = await world.outcome(ImagePushRequest, "anonymous")
            assert type_ == "Failed"
            assert "no basic auth credentials" in message
            config = tmp_path / ".docker" / "config.json"
            text = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
            present = json.loads(config.read_text()) if config.exists() else {}
            config.write_text(json.dumps({**present, "auths": {hub: {"auth": text}}}))
            await world.request(ImagePushRequest, "me", imageRef=name)
            assert (await world.outcome(ImagePushRequest, "me"))[0] == "Complete"


async def test_uses_credential_helper(
    docker: Dockerd, tmp_path: Path, real_part: Callable[[str], Path]
) -> None:
    docker.clear()
    htpasswd = tmp_path / "htpasswd"
    htpasswd.write_text(f"helped:{BCRYPT}\n")
    helper = tmp_path / "bin" / "docker-credential-test"
    helper.parent.mkdir()
    answer = json.dumps({"ServerURL": "", "Username": "helped", "Secret": PASSWORD})
    helper.write_text(f"#!/bin/sh\nread server\n[ $server = localhost:5001 ] && echo '{answer}'\n")
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.json").write_text('{"credHelpers": {"localhost:5001": "test"}}')
    environment = {
        "PATH": f"{helper.parent}:/usr/bin:/bin",
        "DOCKER_CONFIG": str(tmp_path / "config"),
        "DOCKER_HOST": "unix:///nowhere",
    }
    with registry(real_part, docker, tmp_path / "hub", port=5001, htpasswd=htpasswd) as hub:
        docker.import_image(f"{hub}/private/app", "2", a="2")
        async with open_world(tmp_path, docker.socket, environment=environment) as world:
            await world.run_app()
            name = await image_named(world, f"{hub}/private/app:2")
            await world.request(ImagePushRequest, "me", imageRef=name)
            assert (await world.outcome(ImagePushRequest, "me"))[0] == "Complete"


# -- scans


async def test_scan_without_a_scanner_is_not_supported(world: World) -> None:
    name = await image_named(world, "busybox:latest")
    await world.request(ImageScanRequest, "scan", imageRef=name)
    assert await world.outcome(ImageScanRequest, "scan") == (
        "Failed", "NotSupported", "No scanner is installed: install trivy or grype",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "type_", "reason"),
    [
        pytest.param('echo "{ \\"image\\": \\"$5\\", \\"host\\": \\"$DOCKER_HOST\\" }"',
                     "Complete", "Completed", id="works"),
        pytest.param("echo nonsense", "Failed", "ScannerFailed", id="no JSON"),
        pytest.param("echo broken >&2; exit 3", "Failed", "ScannerFailed", id="fails"),
        pytest.param("printf '\"'; head -c 2000000 /dev/zero | tr '\\0' x; printf '\"'",
                     "Failed", "ResultTooLarge", id="too large"),
    ],
)  # fmt: skip
async def test_scanner_is_run(
    script: str, type_: str, reason: str, docker: Dockerd, tmp_path: Path
) -> None:
    docker.clear()
    scanner = tmp_path / "bin" / "trivy"
    scanner.parent.mkdir()
    scanner.write_text(f"#!/bin/sh\n{script}\n")
    scanner.chmod(0o755)
    environment = {"PATH": f"{scanner.parent}:/usr/bin:/bin", "DOCKER_HOST": "unix:///nowhere"}
    async with open_world(tmp_path, docker.socket, environment=environment) as world:
        await world.run_app()
        name = await image_named(world, "busybox:latest")
        await world.request(ImageScanRequest, "scan", imageRef=name)
        assert (await world.outcome(ImageScanRequest, "scan"))[:2] == (type_, reason)
        if type_ == "Complete":
            result = json.loads((await world.get(ImageScanRequest, "scan"))["status"]["result"])
            host = world.env.instance.docker_endpoint
            assert result == {"image": "busybox:latest", "host": host}


async def test_requests_outlive_the_mirrors(world: World) -> None:
    body = {"metadata": {"name": "x", "namespace": NAMESPACE}, "spec": {"image": "busybox"}}
    await world.client.create(resource_of(ContainerCreateRequest), body)
    await world.outcome(ContainerCreateRequest, "x")
    await world.set_running(False)
    await world.ready("Stopped")
    assert await world.get(ContainerCreateRequest, "x")
    assert await world.list(Container) == []
