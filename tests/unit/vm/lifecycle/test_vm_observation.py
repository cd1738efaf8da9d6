# SPDX-License-Identifier: Apache-2.0
"""Observations from events of any form."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.vm.lifecycle.observation import (
    FORWARDS_LIMIT,
    Observation,
    Phase,
    log_messages,
    parse_event,
)
from rdd.vm.problem import Problem

STARTING = Observation(phase=Phase.STARTING, agent_pid=7)


def after(*statuses: dict[str, Any], start: Observation = STARTING) -> Observation:
    seen = start
    for status in statuses:
        seen = seen.after(status)
    return seen


@pytest.mark.parametrize(
    ("statuses", "phase"),
    [
        pytest.param([{"sshLocalPort": 1}], Phase.STARTING, id="port"),
        pytest.param([{"sshLocalPort": 1}, {"running": True}], Phase.RUNNING, id="running"),
        pytest.param([{"degraded": True}], Phase.RUNNING, id="degraded implies running"),
        pytest.param([{"running": True}, {"exiting": True}], Phase.STOPPING, id="exiting"),
        pytest.param([{"exiting": True}, {"running": True}], Phase.STOPPING, id="late event"),
        pytest.param([{"running": True}, {"portForward": {}}], Phase.RUNNING, id="forward"),
        pytest.param([{"running": "yes"}, {"vsock": {}}], Phase.STARTING, id="odd members"),
    ],
)
def test_phase_follows_from_the_events(statuses: list[dict[str, Any]], phase: Phase) -> None:
    assert after(*statuses).phase is phase


def test_machine_that_recovers_is_no_longer_degraded() -> None:
    seen = after({"running": True, "degraded": True, "errors": ["x"]}, {"running": True})
    assert not seen.degraded and seen.errors == ()


def test_problems_follow_the_last_status() -> None:
    data = {"message": "x", "reason": "AddressInUse", "hostAddr": "127.0.0.1:1", "hostPort": 1}
    degraded = {"running": True, "degraded": True, "errors": ["x"], "problems": [data, 7]}
    seen = after(degraded)
    assert seen.problems == (Problem("x", "AddressInUse", "127.0.0.1:1", 1),)
    assert seen.problems[0].to_data() == data
    assert after({"running": True}, start=seen).problems == ()


def test_progress_is_observed_while_a_machine_starts() -> None:
    seen = after({"requirement": {"description": "ssh", "state": "waiting"}})
    assert seen.progress == "ssh"
    assert after({"cloudInitProgress": {"logLine": "modules"}}, start=seen).progress == "modules"
    assert after({"running": True}, start=seen).progress == ""


def test_number_of_forwards_is_bounded() -> None:
    events = [
        {"portForward": {"type": "forwarding", "protocol": "tcp", "guestAddr": f":{port}"}}
        for port in range(FORWARDS_LIMIT + 10)
    ]
    forwards = after(*events).forwards
    assert len(forwards) == FORWARDS_LIMIT
    assert forwards[-1].guest_address == f":{FORWARDS_LIMIT + 9}"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"text",
        b"7",
        b"[]",
        b"{}",
        b'{"status": 7}',
        b'{"status": null}',
        b"\xff",
        b"[" * 10**5,
    ],
)
def test_line_that_is_no_event_is_ignored(line: bytes) -> None:
    assert parse_event(line) is None


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
_members = (
    "running",
    "degraded",
    "exiting",
    "errors",
    "problems",
    "sshLocalPort",
    "cloudInitProgress",
    "portForward",
    "requirement",
    "vsock",
)


@given(st.dictionaries(st.sampled_from(_members), _values))
@settings(max_examples=100, deadline=None)
def test_arbitrary_status_never_fails(status: dict[str, Any]) -> None:
    seen = STARTING.after(status)
    assert isinstance(seen.ssh_local_port, int)
    assert all(isinstance(error, str) for error in seen.errors)
    assert hash(seen)


def test_log_messages_exclude_debug_messages() -> None:
    lines = [
        '{"title":"a test"}',
        '{"level":"info","msg":"one"}',
        '{"level":"debug","msg":"two"}',
        "Traceback (most recent call last):",
        '{"level":"fatal","msg":"three"}',
        '{"nothing": 1}',
        "{broken",
        "",
    ]
    assert log_messages(lines, limit=5) == (
        "one",
        "Traceback (most recent call last):",
        "three",
        '{"nothing": 1}',
        "{broken",
    )
