# SPDX-License-Identifier: Apache-2.0
"""The checks of the crash machine find a planted fault of each class, and no other."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.crash.machine.__main__ import forms
from tests.crash.machine.checks import Final, violations
from tests.crash.machine.faults import identity_ended
from tests.crash.machine.recorder import Event, History, Outcome, Seen, Segment, Write
from tests.crash.machine.remains import Traces
from tests.crash.machine.rounds import unsettled
from tests.programs import PIPE, run_program, start_program

A, B = "configmaps/a", "configmaps/b"


def write(verb: str, key: str, mark: str, at: float, revision: int, **more: object) -> Write:
    made = Write(verb, key, mark, at, at + 0.5, Outcome.ACKNOWLEDGED, revision, f"uid-{key}")
    for name, value in more.items():
        setattr(made, name, value)
    return made


def seen(key: str, revision: int, mark: str, **more: object) -> Seen:
    made = Seen(key, revision, f"uid-{key}", mark)
    return replace(made, **more)  # type: ignore[arg-type]


def sound() -> tuple[History, Final]:
    """Return a history without violations: two watchers, a delete, an unknown write."""
    history = History()
    history.writes = [
        write("create", A, "m1", 1, 11),
        write("update", A, "m2", 2, 12, based_on=11),
        write("create", B, "m3", 3, 13),
        write("patch", A, "m4", 4, 14),
        write("delete", B, "m5", 5, 0),
        write("update", A, "m6", 6, 0, based_on=12, outcome=Outcome.REFUSED),
        write("patch", A, "m7", 7, 0, outcome=Outcome.UNKNOWN, ended=float("inf")),
    ]
    events = [
        Event("ADDED", seen(A, 11, "m1")),
        Event("MODIFIED", seen(A, 12, "m2")),
        Event("ADDED", seen(B, 13, "m3")),
        Event("MODIFIED", seen(A, 14, "m4")),
        Event("DELETED", seen(B, 15, "m3")),
        Event("MODIFIED", seen(A, 16, "m7")),
    ]
    history.segments = [
        Segment("configmaps#0", 10, {}, list(events), end=16),
        Segment("configmaps#1", 12, {A: seen(A, 12, "m2")}, list(events[2:]), end=16),
    ]
    return history, {A: seen(A, 16, "m7")}


def test_sound_history_has_no_violations() -> None:
    history, final = sound()
    assert violations(history, final) == []


def test_write_between_a_delete_and_the_end_of_its_finalizers_is_sound() -> None:
    history, final = sound()
    history.writes += [write("delete", A, "m8", 8, 0), write("update", A, "m9", 9, 18)]
    for segment in history.segments:
        segment.events += [
            Event("MODIFIED", seen(A, 17, "m7", is_deleting=True)),
            Event("MODIFIED", seen(A, 18, "m9", is_deleting=True)),
            Event("DELETED", seen(A, 19, "m9", is_deleting=True)),  # by its controller
        ]
    final.clear()
    assert violations(history, final) == []


def lose_the_newest(history: History, final: Final) -> None:
    """The store went back: the last writes are gone."""
    for segment in history.segments:
        del segment.events[3:]
        segment.end = 13
    final[A] = seen(A, 12, "m2")


def lose_an_object(history: History, final: Final) -> None:
    final.clear()
    for segment in history.segments:
        segment.events.append(Event("DELETED", seen(A, 17, "m7")))


def undo_a_delete(history: History, final: Final) -> None:
    history.writes[4].uid = f"uid-{B}"
    final[B] = seen(B, 13, "m3")
    for segment in history.segments:
        del segment.events[-2]


def repeat_a_revision(history: History, final: Final) -> None:
    history.writes[3].revision = 12


def order_against_time(history: History, final: Final) -> None:
    history.writes[3].began, history.writes[3].ended = 0.1, 0.2


def write_despite_a_change(history: History, final: Final) -> None:
    history.writes[3].based_on = 11


def write_what_was_refused(history: History, final: Final) -> None:
    final[A] = seen(A, 17, "m6")
    for segment in history.segments:
        segment.events.append(Event("MODIFIED", seen(A, 17, "m6")))


def write_of_another_mark(history: History, final: Final) -> None:
    for segment in history.segments:
        segment.events = [
            replace(e, state=replace(e.state, mark="m2")) if e.state.revision == 14 else e
            for e in segment.events
        ]


def skip_an_event(history: History, final: Final) -> None:
    del history.segments[0].events[1]


def skip_an_event_of_an_unknown_write(history: History, final: Final) -> None:
    del history.segments[1].events[-1]
    del final[A]
    final[A] = seen(A, 14, "m4")


def repeat_an_event(history: History, final: Final) -> None:
    history.segments[0].events.insert(2, history.segments[0].events[1])


def reorder_events(history: History, final: Final) -> None:
    events = history.segments[1].events
    events[0], events[1] = events[1], events[0]


def add_twice(history: History, final: Final) -> None:
    history.segments[0].events[1] = Event("ADDED", seen(A, 12, "m2"))


def modify_another_object(history: History, final: Final) -> None:
    history.segments[0].events[1] = Event("MODIFIED", seen(A, 12, "m2", uid="other"))


def list_and_watch_disagree(history: History, final: Final) -> None:
    final["configmaps/c"] = seen("configmaps/c", 14, "")


PLANTED: list[Callable[[History, Final], None]] = [
    lose_the_newest,
    lose_an_object,
    undo_a_delete,
    repeat_a_revision,
    order_against_time,
    write_despite_a_change,
    write_what_was_refused,
    write_of_another_mark,
    skip_an_event,
    skip_an_event_of_an_unknown_write,
    repeat_an_event,
    reorder_events,
    add_twice,
    modify_another_object,
    list_and_watch_disagree,
]


@pytest.mark.parametrize("plant", [pytest.param(p, id=p.__name__) for p in PLANTED])
def test_planted_fault_of_history_is_found(plant: Callable[[History, Final], None]) -> None:
    history, final = sound()
    plant(history, final)
    assert violations(history, final)


# -- convergence


def obj(name: str, **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", **metadata}}


def replica_set(replicas: int, reported: int) -> dict[str, object]:
    return {**obj("r"), "spec": {"replicas": replicas}, "status": {"readyReplicas": reported}}


OWNED = {"ownerReferences": [{"uid": "uid-r", "name": "r"}]}


@pytest.mark.parametrize(
    ("maps", "sets", "problem"),
    [
        pytest.param([obj("r-0", **OWNED)], [replica_set(1, 1)], "", id="converged"),
        pytest.param([], [replica_set(1, 1)], "has 0", id="missing replica"),
        pytest.param([obj("r-0", **OWNED)], [replica_set(0, 0)], "has 1", id="extra replica"),
        pytest.param([obj("r-0", **OWNED)], [replica_set(1, 0)], "reports 0", id="stale status"),
        pytest.param([obj("r-0", **OWNED)], [], "outlives", id="orphan"),
        pytest.param(
            [obj("a", deletionTimestamp="now", finalizers=["f"])], [], "not deleted", id="finalizer"
        ),
    ],
)
def test_what_has_not_converged_is_named(
    maps: list[object], sets: list[object], problem: str
) -> None:
    found = unsettled({"configmaps": maps, "secrets": [], "configmapreplicasets": sets})
    assert problem in found
    assert bool(found) == bool(problem)


# -- traces on the machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "h").mkdir()
    return tmp_path


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount and change the network")


def leave_process(root: Path) -> Iterator[str]:
    with start_program(["sleep", "1000"], env={"HOME": f"{root}/h"}) as program:
        yield f"process {program.pid}"


def leave_mount(root: Path) -> Iterator[str]:
    needs_root()
    (root / "h" / "m").mkdir()
    run_program(["mount", "-t", "tmpfs", "tmpfs", root / "h" / "m"], check=True)
    yield f"mount {root}/h/m"
    run_program(["umount", root / "h" / "m"], check=True)


def leave_rule(root: Path) -> Iterator[str]:
    needs_root()
    rule = ["OUTPUT", "-d", "192.0.2.7", "-j", "ACCEPT"]
    run_program(["iptables", "-A", *rule], check=True)
    yield "192.0.2.7"
    run_program(["iptables", "-D", *rule], check=True)


def leave_device(root: Path) -> Iterator[str]:
    needs_root()
    run_program(["ip", "link", "add", "rddtest0", "type", "veth"], check=True)
    yield "rddtest0"
    run_program(["ip", "link", "del", "rddtest0"], check=True)


def leave_namespace(root: Path) -> Iterator[str]:
    needs_root()
    name = f"rdd-{os.getpid()}"
    run_program(["ip", "netns", "add", name], check=True)
    yield f"netns {name}"
    run_program(["ip", "netns", "del", name], check=True)


def leave_port(root: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"port {server.getsockname()[1]}"


@pytest.mark.parametrize(
    "leave",
    [leave_process, leave_mount, leave_rule, leave_device, leave_namespace, leave_port],
)
def test_planted_trace_is_found(leave: Callable[[Path], Iterator[str]], root: Path) -> None:
    def is_found(text: str) -> bool:  # other tests have traces of their own meanwhile
        return any(text in line for line in before.left_by(Traces.collect(root)))

    before = Traces.collect(root)
    planted = ""
    for planted in leave(root):
        assert is_found(planted)
    assert not is_found(planted)


def test_ended_process_is_recognised() -> None:
    with start_program([sys.executable, "-c", "input()"], stdin=PIPE) as program:
        assert not identity_ended(program.pid)
        program.kill()
        program.wait()
        assert identity_ended(program.pid)


def test_rounds_have_the_requested_forms() -> None:
    found = forms(30, 3, 4)
    assert (len(found), found.count("guest")) == (30, 3)
    assert found.count("moby") + found.count("containerd") == 4
    assert "containerd" in found
