# SPDX-License-Identifier: Apache-2.0
"""Start and stop of the control plane, stage by stage."""

import asyncio
import errno
import io
import logging
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rdd.cli.framework.log_handler import LogHandler
from rdd.cli.framework.logline import Log
from rdd.daemon.control_plane import ControlPlane
from rdd.daemon.options import ServeOptions
from rdd.daemon.service.record import State
from rdd.daemon.stages import STAGES, Stage, control_plane, describe
from rdd.host.errors import HostError
from rdd.instance import Instance
from rdd.store.sqlite.store import SqliteStore

DOCS = Path(__file__).parents[3] / "docs" / "internals.md"
OPTIONS = ServeOptions(secure_port=0)
BARE = ServeOptions(secure_port=0, controllers="", builtin_controllers="")
NAMES = [stage.name for stage in STAGES]


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return Instance("2", tmp_path)


class Failed(Exception):
    pass


class Recorder:
    """Records starts, stops and reports of stages."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.reports: list[tuple[State, str]] = []
        self.planes: list[ControlPlane] = []

    async def report(self, state: State, step: str) -> None:
        self.reports.append((state, step))

    def record(self, stage: Stage) -> Stage:
        async def start(plane: ControlPlane) -> None:
            self.planes.append(plane)
            self.calls.append(f"start {stage.name}")
            await stage.start(plane)

        async def stop(plane: ControlPlane) -> None:
            self.calls.append(f"stop {stage.name}")
            if stage.stop is not None:
                await stage.stop(plane)

        return replace(stage, start=start, stop=stop)

    @property
    def stopped(self) -> list[str]:
        return [call.removeprefix("stop ") for call in self.calls if call.startswith("stop ")]


def failing(stages: Sequence[Stage], name: str, *, after_start: bool = False) -> list[Stage]:
    """Return the stages with one that fails, before or after its start."""

    def broken(stage: Stage) -> Stage:
        async def start(plane: ControlPlane) -> None:
            if after_start:
                await stage.start(plane)
            raise Failed(name)

        return replace(stage, start=start)

    return [broken(stage) if stage.name == name else stage for stage in stages]


async def is_released(instance: Instance) -> bool:
    """Return whether nothing keeps the next control plane from starting."""
    await (await SqliteStore.open(instance.database)).close()
    return not instance.config.exists()


async def test_stages_stop_in_reverse_order(instance: Instance) -> None:
    recorder = Recorder()
    stages = [recorder.record(stage) for stage in STAGES]
    async with control_plane(instance, OPTIONS, stages=stages):
        assert recorder.calls == [f"start {name}" for name in NAMES]
    assert recorder.stopped == NAMES[::-1]


@pytest.mark.parametrize("name", [s.name for s in STAGES if not s.stops_partial_start])
async def test_stage_that_fails_to_start_stops_the_earlier_ones(
    instance: Instance, name: str
) -> None:
    recorder = Recorder()
    stages = failing([recorder.record(stage) for stage in STAGES], name)
    before = asyncio.all_tasks()
    with pytest.raises(Failed):
        async with control_plane(instance, BARE, report=recorder.report, stages=stages):
            raise AssertionError("ready")
    earlier = STAGES[: NAMES.index(name)]
    assert recorder.stopped == [stage.name for stage in reversed(earlier)]
    steps = [stage.stop_step for stage in reversed(earlier) if stage.stop_step]
    assert [step for state, step in recorder.reports if state == State.STOPPING] == steps
    assert (State.READY, "") not in recorder.reports
    assert asyncio.all_tasks() == before
    assert await is_released(instance)


@pytest.mark.parametrize("name", [s.name for s in STAGES if s.stops_partial_start])
async def test_partly_started_stage_is_stopped_as_well(instance: Instance, name: str) -> None:
    recorder = Recorder()
    recorded = [recorder.record(stage) for stage in STAGES]
    with pytest.raises(Failed):
        async with control_plane(
            instance, OPTIONS, stages=failing(recorded, name, after_start=True)
        ):
            raise AssertionError("ready")
    assert recorder.stopped == NAMES[NAMES.index(name) :: -1]
    assert await is_released(instance)


@pytest.mark.parametrize("name", NAMES)
async def test_stage_that_is_cancelled_stops_the_earlier_ones(
    instance: Instance, name: str
) -> None:
    """SIGTERM during the start cancels the task."""
    recorder = Recorder()
    reached = asyncio.Event()

    def hanging(stage: Stage) -> Stage:
        async def start(plane: ControlPlane) -> None:
            await stage.start(plane)
            reached.set()
            await asyncio.Event().wait()

        return replace(stage, start=start) if stage.name == name else stage

    async def run() -> None:
        # Started completely and then cancelled, so that its own stop has something to do.
        stages = [replace(hanging(recorder.record(s)), stops_partial_start=True) for s in STAGES]
        async with control_plane(instance, BARE, stages=stages):
            raise AssertionError("ready")

    running = asyncio.create_task(run())
    await asyncio.wait_for(reached.wait(), 120)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert recorder.stopped == NAMES[NAMES.index(name) :: -1]
    assert await is_released(instance)


@pytest.mark.parametrize("name", [s.name for s in STAGES if s.stop is not None])
async def test_stage_that_fails_to_stop_does_not_keep_the_others(
    instance: Instance, name: str
) -> None:
    recorder = Recorder()

    def broken(stage: Stage) -> Stage:
        recorded = recorder.record(stage)

        async def stop(plane: ControlPlane) -> None:
            assert recorded.stop is not None
            await recorded.stop(plane)
            raise Failed(name)

        return replace(recorded, stop=stop) if stage.name == name else recorded

    with pytest.raises(Failed):
        async with control_plane(instance, BARE, stages=[broken(stage) for stage in STAGES]):
            pass
    assert recorder.stopped == NAMES[::-1]
    assert await is_released(instance)


async def test_report_that_fails_does_not_keep_a_stage_from_stopping(instance: Instance) -> None:
    async def report(state: State, step: str) -> None:
        if state == State.STOPPING:
            raise Failed(step)

    with pytest.raises(Failed):
        async with control_plane(instance, OPTIONS, report=report):
            pass
    assert await is_released(instance)


@pytest.mark.parametrize("name", [s.name for s in STAGES if s.stop is not None])
async def test_stage_that_hangs_while_it_stops_does_not_keep_the_others(
    instance: Instance, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()

    def hanging(stage: Stage) -> Stage:
        recorded = recorder.record(stage)

        async def stop(plane: ControlPlane) -> None:
            assert recorded.stop is not None
            await recorded.stop(plane)
            await asyncio.Event().wait()

        return replace(recorded, stop=stop, stop_timeout_s=0.01) if stage.name == name else recorded

    stages = [hanging(stage) for stage in STAGES]
    async with control_plane(instance, BARE, stages=stages):
        pass
    assert recorder.stopped == NAMES[::-1]
    assert f'the stage "{name}" has not stopped within 0.01 s' in caplog.text


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("name", [s.name for s in STAGES if s.state is not None])
async def test_disk_that_fails_from_a_stage_on_ends_the_start(
    instance: Instance, name: str, number: int
) -> None:
    """Neither the record nor the log nor the database can be written any more."""
    fails = False

    async def report(state: State, step: str) -> None:
        nonlocal fails
        if step == name and state < State.READY:
            fails = True
        if fails:
            raise HostError.from_os("write the record", OSError(number, os.strerror(number)))

    recorder = Recorder()
    stages = [recorder.record(stage) for stage in STAGES]

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if fails:
                raise OSError(number, os.strerror(number))
            return len(text)

    handler = LogHandler(Log(Full(), level="trace"))
    logging.getLogger().addHandler(handler)
    try:
        with pytest.raises(HostError, match=re.escape(os.strerror(number))):
            async with control_plane(instance, BARE, report=report, stages=stages):
                raise AssertionError("ready")
    finally:
        logging.getLogger().removeHandler(handler)
    earlier = NAMES[: NAMES.index(name)]
    # A stage that is stopped after half a start has not begun here.
    assert recorder.stopped == earlier[::-1]
    assert await is_released(instance)


async def test_port_is_served_while_the_kubeconfig_exists(instance: Instance) -> None:
    served: list[tuple[bool, bool]] = []
    recorder = Recorder()

    async def report(state: State, step: str) -> None:
        if recorder.planes and hasattr(recorder.planes[0], "address"):
            host, _, port = recorder.planes[0].address.partition(":")
            with socket.socket() as probe:
                probe.settimeout(5)
                served.append((probe.connect_ex((host, int(port))) == 0, instance.config.exists()))

    stages = [recorder.record(stage) for stage in STAGES]
    async with control_plane(instance, OPTIONS, report=report, stages=stages):
        pass
    assert all(is_served for is_served, has_kubeconfig in served if has_kubeconfig)
    assert any(has_kubeconfig for _, has_kubeconfig in served)


def test_names_of_stages_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_docs_show_the_order_of_the_stages() -> None:
    assert describe() in DOCS.read_text(), "run `python -m rdd.daemon.stages`"
