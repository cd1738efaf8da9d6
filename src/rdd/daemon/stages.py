# SPDX-License-Identifier: Apache-2.0
"""Start and stop of the control plane: an ordered list of stages.

Stages start from the first to the last, and stop in reverse. If a stage fails to start, or
is cancelled, the stages before it stop in reverse; the failing stage itself stops only if it
may have started half (`stops_partial_start`). A stage that fails to stop, or does not stop in
time, does not keep the others from stopping: whatever fails, the process ends.

The order is fixed because each stage, and each client that observes its result, depends on
the ones before. Invariants:

    The kubeconfig exists only while the port is served, so a client that finds the file can
    connect. The dashboard is up by then: it is opened with the kubeconfig's token.
    The discovery ConfigMap of the previous run is deleted before the port is served, so it
    is never mistaken for the one of this run.
    The deployment profile applies before a client can connect.
    Controllers drain while the API is still up.

`describe` renders the order; docs/internals.md shows its output, and a test compares them.
`python -m rdd.daemon.stages` prints it.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from rdd.daemon.control_plane import ControlPlane, Report
from rdd.daemon.managers.composition import DRAIN_S
from rdd.daemon.options import ServeOptions
from rdd.daemon.service.record import State
from rdd.instance import Instance

log = logging.getLogger("rdd.daemon")

Step = Callable[[ControlPlane], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the control plane."""

    name: str
    start: Step
    stop: Step | None = None
    state: State | None = None
    """Reported with the name before the stage starts."""
    stop_step: str = ""
    """Reported with State.STOPPING before the stage stops."""
    stops_partial_start: bool = False
    """Whether `stop` also runs after `start` failed; it then has to cope with half a start."""
    stop_timeout_s: float = 60.0
    """A stop that takes longer is cancelled: a deadlock, or a disk that does not respond."""


_C = ControlPlane
STAGES = (
    Stage("load", _C.load_controllers, _C.cancel_loading),
    Stage("store", _C.open_store, _C.close_store, State.STARTING, "store"),
    Stage("stale kubeconfig", _C.remove_stale_kubeconfig),
    Stage("certificates", _C.issue_certificates, _C.close_socket, State.STARTING),
    Stage("server", _C.open_server, _C.close_server, State.STARTING),
    Stage("stale discovery", _C.remove_stale_discovery),
    Stage("profile", _C.enforce_profile, _C.unfollow_profile),
    Stage("listen", _C.listen, _C.drain_requests, State.STARTING, "api"),
    Stage("dashboard", _C.open_dashboard, _C.close_dashboard),
    Stage("kubeconfig", _C.write_kubeconfig, _C.remove_kubeconfig),
    Stage("preload", _C.preload_schemas, _C.cancel_preloading),
    Stage("register", _C.create_manager, _C.close_manager, State.SERVING, "deregister"),
    Stage(
        "controllers",
        _C.start_builtin_controllers,
        _C.stop_builtin_controllers,
        State.SERVING,
        stops_partial_start=True,
    ),
    Stage(
        "own controllers",
        _C.start_controllers,
        _C.drain_controllers,
        stops_partial_start=True,
        stop_timeout_s=3 * DRAIN_S,
    ),
    Stage("programs", _C.follow_programs, _C.unfollow_programs),
    Stage("requirements", _C.wait_for_requirements, None, State.REGISTERED),
    Stage("renewal", _C.keep_certificates_renewed, _C.cancel_renewal),
    Stage("backups", _C.back_up_daily, _C.cancel_backups),
    Stage("ready", _C.announce_ready, _C.announce_stopping, stop_step="drain"),
)


async def _unreported(state: State, step: str) -> None:
    return None


@contextlib.asynccontextmanager
async def control_plane(
    instance: Instance,
    options: ServeOptions,
    *,
    report: Report = _unreported,
    stages: Sequence[Stage] = STAGES,
) -> AsyncIterator[ControlPlane]:
    """Run the control plane of an instance while the block runs; ready when it is entered."""
    plane = ControlPlane(instance, options)
    async with contextlib.AsyncExitStack() as stack:
        for stage in stages:
            if stage.state is not None:
                await report(stage.state, stage.name)
            if stage.stops_partial_start:
                stack.push_async_callback(_stop, stage, plane, report)
                await stage.start(plane)
            else:
                await stage.start(plane)
                stack.push_async_callback(_stop, stage, plane, report)
        await report(State.READY, "")
        try:
            yield plane
        finally:
            plane.is_stopping = True


async def _stop(stage: Stage, plane: ControlPlane, report: Report) -> None:
    try:
        if stage.stop_step:
            await report(State.STOPPING, stage.stop_step)
    finally:
        if stage.stop is not None:
            await _within(stage.stop_timeout_s, stage.stop(plane), stage.name)


async def _within(timeout_s: float, stop: Awaitable[None], name: str) -> None:
    """Wait for the stop of a stage; cancel it at the timeout, which fails nothing else."""
    try:
        async with asyncio.timeout(timeout_s) as limit:
            await stop
    except TimeoutError:
        if not limit.expired():
            raise
        log.error('the stage "%s" has not stopped within %g s; continuing', name, timeout_s)


def describe(stages: Sequence[Stage] = STAGES) -> str:
    """Render the order as a table in Markdown."""
    rows = [
        ("stage", "`daemon.json` while it starts", "start ↓", "stop ↑"),
        ("---", "---", "---", "---"),
    ]
    for stage in stages:
        state = "" if stage.state is None else f"`{stage.state.name.lower()}`: `{stage.name}`"
        stopping = f" (`stopping`: `{stage.stop_step}`)" if stage.stop_step else ""
        rows.append(
            (
                stage.name,
                state,
                _summary(stage.start),
                "" if stage.stop is None else _summary(stage.stop) + stopping,
            )
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _summary(step: Step) -> str:
    return (step.__doc__ or "").partition("\n")[0].removesuffix(".")


if __name__ == "__main__":
    sys.stdout.write(describe())
