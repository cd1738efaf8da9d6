# SPDX-License-Identifier: Apache-2.0
"""The dashboard's WebSocket and endpoints against the real daemon and a real engine."""

import asyncio
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from tests.controllers.containers.engine_parts import Dockerd, dockerd
from tests.e2e.dashboard.browser import Browser
from tests.e2e.engine_desktop import READY, engine_desktop
from tests.e2e.service.service_world import World
from tests.programs import run_program

CONTAINERS = "/apis/containers.rancherdesktop.io/v1alpha1/containers"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TIMEOUT_S = 120.0
START = (
    "svc", "start", "--", "--controllers=containers,diagnostics,limavm", "--secure-port=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def engine(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dockerd]:
    with dockerd(real_part, tmp_path_factory.mktemp("d")) as made:
        yield made


@pytest.fixture(scope="module")
def desktop(
    engine: Dockerd,
    rdd_script: Path,
    kubectl: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """Run a daemon with an engine; the test writes the App."""
    home = tmp_path_factory.mktemp("h")
    yield from engine_desktop(engine, rdd_script, kubectl, home, START)


def logged_in(world: World, *flags: str) -> Browser:
    return Browser("").login(world.rdd("dashboard", "--print-url", *flags).out.strip())


class Page:
    """A page with an open socket."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._next = 0

    async def send(self, op: str, **members: Any) -> int:
        self._next += 1
        await self._socket.send_str(json.dumps({"id": self._next, "op": op, **members}))
        return self._next

    async def receive(self, id_: int = 0, *types: str) -> dict[str, Any]:
        """Return the next message, of one subscription and of some types if given."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                message = await self._socket.receive()
                assert message.type is WSMsgType.TEXT, message
                found: dict[str, Any] = json.loads(message.data)
                if (not id_ or found["id"] == id_) and (not types or found["type"] in types):
                    return found

    async def synced(self, id_: int) -> tuple[list[Any], str]:
        items: list[Any] = []
        while True:
            found = await self.receive(id_, "SYNC", "ERROR")
            assert found["type"] == "SYNC", found
            items += found["items"]
            if not found["more"]:
                return items, found["resourceVersion"]


@asynccontextmanager
async def page(browser: Browser) -> Any:
    async with browser.socket() as socket:
        yield Page(socket)


def make(world: World, name: str) -> None:
    world.kubectl("create", "configmap", name, "--from-literal=a=b")


async def test_watch_sends_all_objects_then_changes(desktop: World) -> None:
    browser = logged_in(desktop)
    make(desktop, "there")
    async with page(browser) as opened:
        id_ = await opened.send("watch", path=CONFIG_MAPS)
        items, version = await opened.synced(id_)
        assert "there" in {item["metadata"]["name"] for item in items}
        assert items[0]["kind"] == "ConfigMap"
        make(desktop, "later")
        found = await opened.receive(id_, "EVENTS")
        (event,) = found["events"]
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "later")
        assert int(found["resourceVersion"]) > int(version)
        desktop.kubectl("delete", "configmap", "later")
        found = await opened.receive(id_, "EVENTS")
        assert [e["type"] for e in found["events"]] == ["DELETED"]
        last = found["resourceVersion"]
        await opened.send("cancel")  # of an id that is not subscribed
        await opened.receive(2, "END")
    make(desktop, "missed")
    async with page(browser) as opened:
        id_ = await opened.send("watch", path=CONFIG_MAPS, resourceVersion=last)
        found = await opened.receive(id_)
        assert found["type"] == "EVENTS"
        assert [e["object"]["metadata"]["name"] for e in found["events"]] == ["missed"]


async def test_two_windows_and_selectors(desktop: World) -> None:
    browser = logged_in(desktop)
    async with page(browser) as one, page(browser) as two:
        first = await one.send("watch", path=CONFIG_MAPS, query="labelSelector=a%3Db")
        assert (await one.synced(first))[0] == []
        second = await two.send("watch", path=CONFIG_MAPS)
        await two.synced(second)
        make(desktop, "labelled")
        await two.receive(second, "EVENTS")
        desktop.kubectl("label", "configmap", "labelled", "a=b")
        found = await one.receive(first, "EVENTS")
        assert found["events"][0]["type"] == "ADDED"
        await two.receive(second, "EVENTS")
        await one.send("cancel")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"op": "watch", "path": "/apis/none.example/v1/things"}, 404),
        ({"op": "watch", "path": "/metrics"}, 400),
        ({"op": "watch", "path": f"{CONFIG_MAPS}/one"}, 400),
        ({"op": "watch", "path": CONFIG_MAPS, "query": "watch=false"}, 400),
        ({"op": "watch", "path": CONFIG_MAPS, "query": "labelSelector=%3D%3D"}, 400),
        ({"op": "watch", "path": CONFIG_MAPS, "resourceVersion": "x"}, 400),
        ({"op": "watch"}, 400),
        ({"op": "stats", "names": "x"}, 400),
        ({"op": "stats", "names": ["x"] * 101}, 400),
        ({"op": "other"}, 400),
        ({}, 400),
    ],
)
async def test_refused_subscriptions_leave_the_socket_open(
    desktop: World, message: dict[str, Any], code: int
) -> None:
    async with logged_in(desktop).socket() as socket:
        await socket.send_str(json.dumps({"id": 7, **message}))
        found = json.loads((await socket.receive(timeout=TIMEOUT_S)).data)
        assert (found["id"], found["type"]) == (7, "ERROR")
        assert found["status"]["code"] == code
        await socket.send_str(json.dumps({"id": 8, "op": "host"}))
        assert json.loads((await socket.receive(timeout=TIMEOUT_S)).data)["type"] == "HOST"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", '{"op":"host"}', '{"id":true}', '{"id":-1}', '{"id":"1"}']
)
async def test_malformed_messages_close_the_socket(desktop: World, text: str) -> None:
    async with logged_in(desktop).socket() as socket:
        await socket.send_str(text)
        message = await socket.receive(timeout=TIMEOUT_S)
        assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED)
        assert socket.close_code == 1003


async def test_too_many_subscriptions_are_refused(desktop: World) -> None:
    async with page(logged_in(desktop)) as opened:
        ids = [await opened.send("watch", path=CONFIG_MAPS) for _ in range(65)]
        found = await opened.receive(ids[-1], "ERROR")
        assert found["status"]["code"] == 429


@pytest.mark.parametrize("version", ["1", "999999999"], ids=["compacted", "of-another-store"])
async def test_version_without_history_is_expired(desktop: World, version: str) -> None:
    async with page(logged_in(desktop)) as opened:
        id_ = await opened.send("watch", path=CONFIG_MAPS, resourceVersion=version)
        found = await opened.receive(id_)
        if version == "1" and found["type"] == "EVENTS":
            return  # nothing was compacted yet
        assert found["type"] == "ERROR"
        assert found["status"]["code"] == 410


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}], ids=["origin", "host"]
)
async def test_socket_checks_host_and_origin(desktop: World, headers: dict[str, str]) -> None:
    with pytest.raises(WSServerHandshakeError) as caught:
        async with logged_in(desktop).socket(**headers):
            pass
    assert caught.value.status in (403, 421)


async def test_socket_needs_ticket_and_cookie(desktop: World) -> None:
    browser = logged_in(desktop)
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert browser.send("GET", "/ws", headers=upgrade).status == 401
    assert browser.send("GET", "/ws?ticket=x", headers=upgrade).status == 401
    target = browser.ticket("/ws")
    assert Browser(browser.origin).send("GET", target, headers=upgrade).status == 401
    assert browser.send("GET", "/ws").status == 400


async def test_sockets_end_with_the_session(desktop: World) -> None:
    browser = logged_in(desktop)
    async with browser.socket() as socket:
        await socket.send_str(json.dumps({"id": 1, "op": "host"}))
        await socket.receive(timeout=TIMEOUT_S)
        await asyncio.to_thread(browser.send, "POST", "/logout")
        while (message := await socket.receive(timeout=TIMEOUT_S)).type is WSMsgType.TEXT:
            pass
        assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)


async def test_engine_change_and_live_figures_reach_the_page(
    desktop: World, engine: Dockerd
) -> None:
    browser = logged_in(desktop)
    async with page(browser) as opened:
        watch = await opened.send("watch", path=CONTAINERS)
        await opened.synced(watch)
        id_ = await asyncio.to_thread(
            engine.run, "busy", Cmd=["sh", "-c", "while true; do true; done"]
        )
        while True:
            found = await opened.receive(watch, "EVENTS")
            states = {
                e["object"]["metadata"]["name"]: (e["object"].get("status") or {}).get("status")
                for e in found["events"]
            }
            if states.get(id_) == "running":
                break
        stats = await opened.send("stats", names=[id_])
        found = await opened.receive(stats, "STATS", "ERROR")
        figures = found["items"][id_]
        assert figures["memory"] > 0
        assert figures["cpu"] > 1
        host = await opened.send("host")
        sample = await opened.receive(host, "HOST")
        assert sample["machine"]["memoryUsed"] < sample["machine"]["memory"]
        sample = await opened.receive(host, "HOST")
        assert 0 <= sample["machine"]["cpu"] <= 100
        assert sample["daemon"]["memory"] > 0
        await asyncio.to_thread(engine.remove, id_)


async def test_viewer_sees_figures_but_no_content(desktop: World, engine: Dockerd) -> None:
    id_ = engine.run("private", Env=["PASSWORD=hunter2"], Cmd=["sh", "-c", "echo hunter2; cat"],
                     OpenStdin=True)  # fmt: skip
    viewer = logged_in(desktop, "--viewer")
    async with page(viewer) as opened:
        watch = await opened.send("watch", path=CONTAINERS)
        await opened.synced(watch)
        for op, members in (
            ("watch", {"path": CONFIG_MAPS}),
            ("watch", {"path": "/api/v1/secrets"}),
        ):
            refused = await opened.send(op, **members)
            found = await opened.receive(refused, "ERROR", "SYNC")
            assert found["status"]["code"] == 403
        stats = await opened.send("stats", names=[id_])
        assert (await opened.receive(stats, "STATS", "ERROR"))["type"] == "STATS"
        host = await opened.send("host")
        assert (await opened.receive(host, "HOST", "ERROR"))["type"] == "HOST"
    prefix = "/k8s/passthrough/engine"
    details = viewer.send("GET", f"{prefix}/details/{id_}")
    assert details.status == 200
    assert "hunter2" not in details.text
    assert viewer.send("GET", f"{prefix}/usage").status == 200
    for path in (f"inspect/{id_}", f"logs/{id_}?follow=false", f"files/{id_}", f"top/{id_}"):
        assert viewer.send("GET", f"{prefix}/{path}").status == 403, path
    # The administrator allows logs with a binding, for kubectl and the dashboard alike.
    desktop.kubectl(
        "create", "clusterrolebinding", "logs",
        "--clusterrole=rdd:viewer-logs", "--group=rdd:viewers",
    )  # fmt: skip
    desktop.until(lambda: viewer.send("GET", f"{prefix}/logs/{id_}?follow=false").status == 200)
    words = ("--as=someone", "--as-group=rdd:viewers", "--as-group=system:authenticated")
    assert "private" in desktop.kubectl("get", "containers", *words)
    assert desktop.kubectl("get", "--raw", "/passthrough/engine/usage", *words)
    done = run_program(
        [desktop.kubectl_path, "--kubeconfig", str(desktop.instance.config), "get", "--raw",
         f"/passthrough/engine/inspect/{id_}", *words],
        env=desktop.environment(),
    )  # fmt: skip
    assert "forbidden" in done.stderr
    desktop.kubectl("delete", "clusterrolebinding", "logs")
    engine.remove(id_)


async def test_logs_and_terminal_of_a_container(desktop: World, engine: Dockerd) -> None:
    id_ = engine.run("shell", Cmd=["sh", "-c", "echo ready; cat"], OpenStdin=True)
    browser = logged_in(desktop)
    path = f"/k8s/passthrough/engine/logs/{id_}?follow=true"
    async with browser.socket(path) as socket:
        assert await socket.receive_bytes(timeout=TIMEOUT_S) == b"ready\n"
    protocol = {"Sec-WebSocket-Protocol": "v5.channel.k8s.io"}
    path = f"/k8s/passthrough/engine/exec/{id_}?command=echo&command=hello"
    async with browser.socket(path, **protocol) as socket:
        assert (await socket.receive_bytes(timeout=TIMEOUT_S)) == b"\x01hello\n"
    download = browser.ticket(f"/k8s/passthrough/engine/archive/{id_}?path=/bin&format=tar")
    tar = Browser(browser.origin, cookie=browser.cookie).send("GET", download)
    assert tar.status == 200
    assert tar.headers["content-disposition"].startswith("attachment")
    with tarfile.open(fileobj=io.BytesIO(tar.body)) as found:
        assert "bin/sh" in found.getnames()
    engine.remove(id_)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_second_local_user_gets_nothing(desktop: World) -> None:
    browser = logged_in(desktop)
    port = browser.host.rpartition(":")[2]
    instance = desktop.instance
    script = f"""
import http.client, os
"".encode("idna")  # while the files of this Python can be read
os.setgid(65534); os.setuid(65534)
for path in {[str(p) for p in (instance.dashboard_file, instance.config, instance.tokens_file)]!r}:
    try:
        open(path).read(); print("read", path)
    except OSError:
        pass
for path in ("/k8s/api/v1/namespaces", "/session", "/ws", "/login?code=guess"):
    c = http.client.HTTPConnection("127.0.0.1", {port})
    c.request("GET", path, headers={{"Host": {browser.host!r}}})
    print(c.getresponse().status)
"""
    done = run_program(["python3", "-c", script], check=True)
    assert done.stdout.split() == ["401", "401", "400", "403"]


def test_logs_of_the_daemon_and_the_bundle(desktop: World) -> None:
    browser = logged_in(desktop)
    found = browser.send("GET", "/k8s/service/logs").json()
    assert "rdd.stderr.log" in {log["name"] for log in found["logs"]}
    log = browser.send("GET", "/k8s/service/logs/rdd.stderr?tail=1")
    assert log.status == 200
    assert log.text.count("\n") <= 1
    for path, status in (
        ("none", 404), ("..%2Ftls%2Ftokens.json", 404), ("rdd.stderr?tail=x", 400),
        ("rdd.stderr?follow=x", 400),
    ):  # fmt: skip
        assert browser.send("GET", f"/k8s/service/logs/{path}").status == status, path
    assert browser.send("POST", "/k8s/service/logs").status == 405
    bundle = browser.send("GET", "/k8s/service/bundle")
    assert bundle.status == 200
    with tarfile.open(fileobj=io.BytesIO(bundle.body)) as tar:
        names = tar.getnames()
    assert any(name.endswith("versions.json") for name in names)
    for secret in (browser.cookie, desktop.instance.tokens_file.read_text()[12:40]):
        assert secret.encode() not in bundle.body
    assert desktop.kubectl("get", "--raw", "/service/logs")
    assert not list(desktop.instance.dir.glob(".bundle-*"))
    assert browser.send("GET", "/k8s/passthrough/limavm/logs/default/none").status == 404
    assert browser.send("GET", "/k8s/passthrough/limavm/logs/none").status == 400


def test_logs_of_a_machine(desktop: World) -> None:
    machine = desktop.instance.lima_home / "box"
    machine.mkdir(parents=True)
    (machine / "lima.yaml").write_text("{}")
    (machine / "serial.log").write_text("".join(f"line {i}\n" for i in range(100)))
    (machine / "secret.log").symlink_to("/etc/passwd")
    browser = logged_in(desktop)
    prefix = "/k8s/passthrough/limavm/logs/default/box"
    found = browser.send("GET", prefix).json()
    assert [log["name"] for log in found["logs"]] == ["serial.log"]
    assert browser.send("GET", f"{prefix}/serial?tail=2").text == "line 98\nline 99\n"
    assert browser.send("GET", f"{prefix}/serial.log").text.startswith("line 0\n")
    assert browser.send("GET", f"{prefix}/secret").status == 404
    assert browser.send("GET", f"{prefix}/lima.yaml").status == 404


def test_diagnostics_are_muted_and_run_on_request(desktop: World) -> None:
    desktop.until(lambda: "disk" in desktop.kubectl("get", "diagnostics", "-o", "name"))
    prefix = "app.rancherdesktop.io"
    desktop.kubectl("annotate", "diagnostic", "disk", f"{prefix}/muted=true")
    desktop.kubectl("annotate", "diagnostic", "disk", f"{prefix}/runRequested=now")

    def annotations() -> dict[str, str]:
        found = json.loads(desktop.kubectl("get", "diagnostic", "disk", "-o", "json"))
        return dict(found["metadata"].get("annotations") or {})

    desktop.until(lambda: f"{prefix}/runRequested" not in annotations())
    assert annotations()[f"{prefix}/muted"] == "true"
    desktop.rdd("svc", "stop")
    desktop.rdd(*START)
    desktop.kubectl(*READY)
    assert annotations()[f"{prefix}/muted"] == "true"
