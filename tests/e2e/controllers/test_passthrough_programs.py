# SPDX-License-Identifier: Apache-2.0
"""Passthrough endpoints of the daemon and of an external program, used by a client."""

import json
import signal
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import websocket
from tests.e2e.service.service_world import World
from tests.programs import Program

from rdd.client.kubeconfig import load


def begin_mock(world: World) -> Program[str]:
    """Start `mock-controller` and wait until it is registered."""
    program = world.begin_program(world.script.with_name("mock-controller"))
    world.until(lambda: program.poll() is not None or "mock" in entries(world))
    assert program.poll() is None, world.end(program)
    return program


def entries(world: World) -> dict[str, object]:
    config_map = ("get", "configmap", "-n", "rdd-system", "rdd-controller-manager", "-o", "json")
    return json.loads(world.kubectl(*config_map)).get("data") or {}


def containers(world: World) -> dict[str, str]:
    """Return the IDs of the mock's existing containers by name."""
    listed = world.kubectl("get", "containers", "-n", "rancher-desktop", "-o", "json")
    found = json.loads(listed)["items"]
    return {c["status"]["name"]: c["metadata"]["name"] for c in found if "status" in c}


def messages(config: Path, path: str, tmp_path: Path) -> tuple[list[bytes], int]:
    """Return the messages and the close code of a WebSocket, or none and an HTTP status."""
    connection = load(config)
    authority = tmp_path / "authority.pem"
    authority.write_text(connection.authority)
    trust = ssl.create_default_context(cafile=str(authority))
    host, _, port = connection.server.removeprefix("https://").partition(":")
    said: list[bytes] = []
    with (
        socket.create_connection((host, int(port)), timeout=120) as plain,
        trust.wrap_socket(plain, server_hostname=host) as secured,
    ):
        try:
            client = websocket.create_connection(
                connection.server.replace("https:", "wss:") + path,
                header=[f"Authorization: Bearer {connection.token}"],
                socket=secured,
            )
        except websocket.WebSocketBadStatusException as refused:
            return [], refused.status_code
        while True:
            code, data = client.recv_data()
            if code == websocket.ABNF.OPCODE_CLOSE:
                return said, int.from_bytes(data[:2], "big")
            said.append(data)


def test_endpoints_of_the_daemons_own_controllers(world: World, tmp_path: Path) -> None:
    world.rdd("svc", "start", "--controllers=demo")
    text = world.kubectl("get", "--raw", "/passthrough/demo/hello/some/path")
    assert text.startswith("Hello, world!\n")
    assert text.endswith('Path = "/some/path"\n')
    assert "Bearer" not in text
    said, code = messages(world.instance.config, "/passthrough/demo/websocket/", tmp_path)
    assert (said, code) == ([b"hello from websocket\n"], 1000)
    entry = json.loads(str(entries(world)["embedded"]))
    assert entry["enabledPassthroughs"] == {"demo": ["hello", "websocket"]}


def test_endpoints_of_an_external_program(world: World, tmp_path: Path) -> None:
    world.rdd("svc", "start", "--controllers=")
    config = world.instance.config
    program = begin_mock(world)
    try:
        entry = json.loads(str(entries(world)["mock"]))
        assert entry["enabledPassthroughs"] == {"mock": ["logs"]}
        assert entry["enabledControllers"] == ["k3s-versions", "mock"]
        world.until(lambda: "migration" in containers(world))
        ten = containers(world)["migration"]
        # The daemon may receive the event of the ConfigMap later than this client.
        world.until(lambda: messages(config, "/passthrough/mock/logs/-", tmp_path) == ([], 400))
        said, code = messages(config, f"/passthrough/mock/logs/{ten}", tmp_path)
        assert said == [f"[Line {i}]\n".encode() for i in range(1, 11)]
        assert code == 1000
        assert messages(config, "/passthrough/mock/logs/abc", tmp_path) == ([], 404)
        # Its port rejects requests without the credential.
        url = entry["passthroughEndpoint"].replace("localhost", "127.0.0.1")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}mock/logs/{ten}", timeout=120)
        assert refused.value.code == 401
        refused.value.close()
    finally:
        program.send_signal(signal.SIGTERM)
        done = world.end(program)
    assert done.code == 0, done
    assert messages(config, f"/passthrough/mock/logs/{ten}", tmp_path) == ([], 503)
    assert messages(config, "/passthrough/other/logs/x", tmp_path) == ([], 404)
