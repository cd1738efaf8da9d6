# SPDX-License-Identifier: Apache-2.0
"""The audit log of a real daemon."""

import json
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [system:kube-controller-manager, system:apiserver]
- level: RequestResponse
"""


def test_events_of_a_client_are_logged(world: World, tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit" / "audit.log"
    policy.write_text(POLICY)
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=1")
    world.rdd("service", "start", "--", "--controllers=", *flags)
    world.write_first("audited")
    world.kubectl("create", "secret", "generic", "hidden", "--from-literal=k=TOP-SECRET")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (created,) = [e for e in events if e["verb"] == "create" and "configmaps" in e["requestURI"]]
    assert created["user"]["username"] == "system-admin"
    assert created["objectRef"]["resource"] == "configmaps"
    assert created["responseObject"]["metadata"]["name"] == "audited"
    text = log.read_text()
    assert "hidden" not in [e.get("requestObject") for e in events]
    assert "TOP-SECRET" not in text
    assert "VE9QLVNFQ1JFV" not in text
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--audit-policy-file=/nonexistent", "No such file"),
        ("--audit-log-format=legacy", "only json"),
        ("--audit-log-maxsize=-1", "negative"),
    ],
)
def test_unusable_flags_fail_the_start_with_the_reason(world: World, flag: str, why: str) -> None:
    done = world.try_rdd("service", "serve", "--controllers=", flag)
    assert done.code == 1
    assert why in done.err


def test_the_log_has_the_address_of_the_apiserver_at_level_debug(world: World) -> None:
    world.rdd("service", "start", "--log-level=debug", "--", "--controllers=")
    (server,) = [
        line for line in world.instance.config.read_text().splitlines() if "server:" in line
    ]
    address = server.split("//")[1].strip('" ')
    assert any("apiserver" in line and address in line for line in world.log().splitlines())
