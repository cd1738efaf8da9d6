# SPDX-License-Identifier: Apache-2.0
"""Who may use the paths that are no resources, on a real daemon with all controllers.

`tests/http/access/test_access_generated.py` has the matrix of the API server; these paths are added
by the daemon and its controllers. Unknown paths below them are refused as well, so that a new
endpoint is closed until a role opens it.
"""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.service.service_world import World

PATHS = (
    "/service/logs",
    "/service/logs/rdd.stderr",
    "/service/logs/..%2f..%2fconfig.yaml",
    "/service/bundle",
    "/service/host",
    "/service/dashboard-login",
    "/service/rotate-tokens",
    "/service/x",
    "/metrics",
    *(f"/passthrough/engine/{name}/x" for name in ("logs", "stats", "exec", "files", "archive")),
    *(f"/passthrough/engine/{name}/x" for name in ("volume-files", "volume-archive", "x")),
    "/passthrough/engine/prune",
    "/passthrough/engine/usage",
    "/passthrough/image/build-log/default/x",
    "/passthrough/limavm/logs/default/x/ha.stdout",
    "/passthrough/x/x",
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Daemon:
    def __init__(self, config: Path) -> None:
        found = yaml.safe_load(config.read_text())
        server = found["clusters"][0]["cluster"]
        self._host = server["server"].partition("://")[2]
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self.tokens = {one["name"]: one["user"]["token"] for one in found["users"]}
        self._connections: dict[str, http.client.HTTPSConnection] = {}

    def status(self, method: str, path: str, token: str) -> tuple[int, bytes]:
        """Return status and body, on one connection per token; it reconnects when it must."""
        connection = self._connections.setdefault(
            token, http.client.HTTPSConnection(self._host, timeout=60, context=self._tls)
        )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


@pytest.fixture
def daemon(world: World) -> Iterator[Daemon]:
    world.rdd("svc", "start", "--secure-port=0")
    found = Daemon(world.instance.config)
    yield found
    found.close()


def test_every_path_is_closed_for_strangers_and_readers(world: World, daemon: Daemon) -> None:
    world.kubectl("create", "serviceaccount", "nobody")
    token = world.kubectl("create", "token", "nobody").strip()
    (reader,) = (value for name, value in daemon.tokens.items() if "user" in name)
    wrong = []
    for path in PATHS:
        for method in METHODS:
            found = {
                "anonymous": daemon.status(method, path, "")[0],
                "wrong token": daemon.status(method, path, "x")[0],
                "account": daemon.status(method, path, token)[0],
                "reader": daemon.status(method, path, reader)[0],
            }
            expected = {"anonymous": (401, 403), "wrong token": (401,)}
            wrong += [
                f"{who} {method} {path}: {status}"
                for who, status in found.items()
                if status not in expected.get(who, (403,))
            ]
    assert wrong == []


def test_log_outside_of_the_directory_is_not_found(world: World, daemon: Daemon) -> None:
    (world.instance.log_dir / "link.log").symlink_to(world.instance.config)
    admin = next(value for name, value in daemon.tokens.items() if "user" not in name)
    for name in (
        "..%2fconfig.yaml",
        "%2fetc%2fpasswd",
        "link",
        "link.log",
        "..",
        ".",
        "%00",
        "a%0ab",
    ):
        status, body = daemon.status("GET", f"/service/logs/{name}", admin)
        assert status in (400, 404), (name, status)
        assert b"token" not in body
    status, body = daemon.status("GET", "/service/logs", admin)
    assert status == 200
    assert "link.log" not in {one["name"] for one in json.loads(body)["logs"]}
