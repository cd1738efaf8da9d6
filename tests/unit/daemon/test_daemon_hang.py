# SPDX-License-Identifier: Apache-2.0
"""A daemon whose port accepts connections and that never responds."""

import json
import os
import socket
from pathlib import Path

import pytest
import trustme

from rdd.daemon.service import hang
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import DaemonRecord, State
from rdd.host.processes import own_identity
from rdd.instance import Instance


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instance:
    monkeypatch.setattr(hang, "TIMEOUT_S", 0.1)
    found = Instance("2", tmp_path)
    found.config.parent.mkdir(parents=True)
    return found


def _write_config(instance: Instance, port: int) -> None:
    authority = instance.config.parent / "ca.pem"
    authority.write_bytes(trustme.CA().cert_pem.bytes())
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    instance.config.write_text(json.dumps(text))


def _record(state: State) -> DaemonRecord:
    return DaemonRecord(own_identity(), version="1", state=state)


def test_mute_daemon_is_reported_with_its_process(instance: Instance) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _write_config(instance, server.getsockname()[1])
        pid = os.getpid()
        why = rf"does not respond: process {pid} is running \(R\); .*: kill -KILL {pid}"
        with pytest.raises(ServiceError, match=why):
            hang.check_responsive(instance, _record(State.READY))


@pytest.mark.parametrize("state", [State.STARTING, State.SERVING, State.STOPPING])
def test_daemon_that_is_not_ready_is_waited_for(instance: Instance, state: State) -> None:
    hang.check_responsive(instance, _record(state))


def test_daemon_that_refuses_connections_does_not_hang(instance: Instance) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _write_config(instance, server.getsockname()[1])
    hang.check_responsive(instance, _record(State.READY))
    instance.config.unlink()
    hang.check_responsive(instance, _record(State.READY))
