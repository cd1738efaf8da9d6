# SPDX-License-Identifier: Apache-2.0
"""diagnostics: runs checks for common problems and reports findings with fixes.

There is one Diagnostic per check. The controller runs the checks in a thread and writes a
Diagnostic only when its finding changes. Too little disk space is the condition DiskPressure of
the App, too, which ends with the finding. It recreates a deleted Diagnostic and ignores those
without a check. When the checks run:

| trigger | checks |
|---|---|
| the App changes; so it does when the machine, the engine or the cluster do | all |
| a watched file changes: contexts, kubeconfigs, the events of the host agent | all |
| every 15 s while the virtual machine runs | those of files, processes and the engine |
| every 2 s while a problem is raised | those that failed |
| the annotation `app.rancherdesktop.io/runRequested` | that of the Diagnostic |

The rounds of 15 s are those of a thread ([sampling](sampling.py)), which reports changes only.
They omit what the other triggers cover: the certificate, once per hour, and the ports, whose
changes are events of the host agent. Without a running machine and without a problem nothing
wakes up.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.controllers.app.app import reasons
from rdd.controllers.app.diagnostics import checks
from rdd.controllers.app.diagnostics.findings import Facts, Finding
from rdd.controllers.app.diagnostics.sampling import Sampler
from rdd.controllers.environment import ControllerEnvironment
from rdd.host.contexts import docker_contexts, kube_contexts
from rdd.host.errors import HostError
from rdd.host.file_watcher import FileWatcher
from rdd.host.trash import Trash, is_space_short
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.diagnostic import Diagnostic
from rdd.kinds.metadata import ObjectMeta
from rdd.runtime import (
    Condition,
    Context,
    Controller,
    ObjectKey,
    Result,
    StatusWriter,
    maps,
    record_transition,
    resource_of,
)

_log = logging.getLogger(__name__)

FIELD_MANAGER = "diagnostics-controller"
_DISK_REASONS = ("DiskLow", "DiskFull", "GuestDiskLow", "GuestDiskFull")

_RUNNING_S = 14.0  # 15 s with the round itself
_ROUNDS_PER_HOUR = round(3600 / _RUNNING_S)
_RAISED_S = 2.0

# Keys of the queue that are not Diagnostics: their names are not valid for objects.
ALL = ObjectKey("", "*")
"""Run all checks."""
RAISED = ObjectKey("", "?")
"""Run the checks that failed."""


def diagnostics(env: ControllerEnvironment) -> Controller:
    """Create the controller of Diagnostics."""
    return Controller(
        "diagnostics",
        lambda context: DiagnosticsReconciler(context, env),
        sources=(maps(Diagnostic, _with_check), maps(App, lambda app: [ALL])),
        definitions=(definition_of(Diagnostic),),
    )


def _with_check(diagnostic: Object) -> Iterable[ObjectKey]:
    key = ObjectKey.of(diagnostic)
    return (key,) if key.name in checks.CHECKS else ()


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)


class DiagnosticsReconciler:
    """Runs the checks and writes the Diagnostics."""

    def __init__(self, context: Context, env: ControllerEnvironment) -> None:
        self._context = context
        self._env = env
        self._status = StatusWriter(context, Diagnostic, has_generation=False)
        self._app_status = StatusWriter(
            context,
            App,
            field_manager=FIELD_MANAGER,
            on_transition=record_transition(context, warnings=_DISK_REASONS),
        )
        self._diagnostics = context.cache.of(Diagnostic)
        self._apps = context.cache.of(App)
        self._findings: dict[str, Finding] = {}
        self._watcher: FileWatcher | None = None
        self._sampler: Sampler | None = None
        self._watched: dict[tuple[Path, int], int] = {}
        context.enqueue(ALL)

    async def run(self) -> None:
        """Watch files until cancelled."""
        loop = asyncio.get_running_loop()
        self._watcher = FileWatcher()
        self._sampler = Sampler(lambda: _call_in(loop, self._files_changed), interval_s=_RUNNING_S)
        try:
            self._context.enqueue(ALL)
            await loop.create_future()
        finally:
            self._sampler.stop()
            self._sampler = None
            self._watcher.close()
            self._watcher = None

    async def reconcile(self, key: ObjectKey) -> Result:
        """Run checks and write their findings, or restore a Diagnostic."""
        if key == ALL:
            self._watch_files()
            await self._check(checks.CHECKS)
        elif key == RAISED:
            await self._check(self._raised())
        else:
            # Its own write caused this, unless it was deleted or a run is requested.
            found = self._diagnostics.get(key)
            if found is None and key.name in self._findings:
                await self._write(key.name)
            elif found is not None:
                await self._run_requested(key.name, found)
            return Result.done()
        if key == ALL:
            if self._raised():
                self._context.enqueue(RAISED)
            self._sample()
            return Result.done()
        return Result.requeue(_RAISED_S) if self._raised() else Result.done()

    async def _run_requested(self, name: str, found: Diagnostic) -> None:
        """Run a check that was requested by an annotation, then remove the annotation."""
        value = (found.raw["metadata"].get("annotations") or {}).get(names.RUN_REQUESTED)
        if value is None:
            return
        await self._check([name])
        if name in self._raised():
            self._context.enqueue(RAISED)
        path = "/metadata/annotations/" + names.RUN_REQUESTED.replace("/", "~1")
        # Another request that arrived meanwhile has another value and stays.
        operations = [
            {"op": "test", "path": path, "value": value},
            {"op": "remove", "path": path},
        ]
        try:
            await self._context.client.patch(
                resource_of(Diagnostic), name, operations, type_="json"
            )
        except (errors.NotFound, errors.Invalid, errors.BadRequest):
            pass

    def _sample(self) -> None:
        """Start or stop the rounds, with the present App and findings."""
        if self._sampler is None:
            return
        facts = self._facts()
        if not facts.is_running:
            self._sampler.stop()
            return
        omitted = {"certificates"}
        if any(path == facts.machine.ha_stdout for path, _inode in self._watched):
            omitted.add("ports")
        rounds = itertools.count(1)

        def run() -> dict[str, Finding]:
            is_complete = next(rounds) % _ROUNDS_PER_HOUR == 0
            return self._run(set(checks.CHECKS) - (set() if is_complete else omitted), facts)

        self._sampler.start(run, self._findings)

    def _run(self, names: Iterable[str], facts: Facts) -> dict[str, Finding]:
        """Run checks; they may block."""
        selected = list(names)
        if "disk" in selected:
            self._purge_trash()
        return {name: checks.run(name, facts) for name in selected}

    def _raised(self) -> list[str]:
        return [name for name, found in self._findings.items() if found.healthy == "False"]

    def _facts(self) -> Facts:
        app = self._apps.get(ObjectKey("", names.APP_NAME))
        return Facts(
            self._env.instance, self._env.home, self._env.environment, app.raw if app else None
        )

    async def _check(self, wanted: Iterable[str]) -> None:
        # One thread for all: each switch to a thread wakes the process up.
        found = await asyncio.to_thread(self._run, list(wanted), self._facts())
        self._findings.update(found)
        for name in found:
            await self._write(name)
        if "disk" in found:
            await self._report_disk_pressure(found["disk"])

    def _purge_trash(self) -> None:
        """Free the trash while space is short; its age is checked elsewhere."""
        roots = self._env.instance.trash_dirs
        if any(root.exists() and is_space_short(root) for root in roots):
            try:
                Trash(roots).purge()
            except HostError as error:
                _log.warning("the trash is not emptied: %s", error)

    async def _write(self, name: str) -> None:
        key, finding = ObjectKey("", name), self._findings[name]
        found = self._diagnostics.get(key)
        if found is None:
            made = Diagnostic(metadata=ObjectMeta(name=name)).raw
            client, resource = self._context.client, resource_of(Diagnostic)
            try:
                found = Diagnostic.of(await client.create(resource, made))
            except errors.AlreadyExists:  # the cache is stale
                found = Diagnostic.of(await client.get(resource, name))
        await self._status.write(
            found.raw,
            Condition(names.HEALTHY, finding.healthy, finding.reason, finding.message),
            members={"evidence": list(finding.evidence), "nextStep": finding.next_step or None},
        )

    async def _report_disk_pressure(self, finding: Finding) -> None:
        """Set or remove the condition of the App."""
        app = self._apps.get(ObjectKey("", names.APP_NAME))
        if app is None or finding.healthy == "Unknown":
            return
        with contextlib.suppress(errors.NotFound):
            if finding.healthy == "True":
                await self._app_status.write(app.raw, remove={names.DISK_PRESSURE})
            else:
                # Without the amount, which changes all the time: each change would be a write.
                message = f"{finding.message} Free some space: {finding.next_step}"
                pressure = reasons.disk_pressure(finding.reason, message)
                await self._app_status.write(app.raw, pressure)

    # -- files

    def _watch_files(self) -> None:
        """Watch the files that checks depend on and that exist now."""
        if self._watcher is None:
            return
        current: dict[tuple[Path, int], int] = {}
        for path in self._files():
            try:
                # A path that was recreated has another inode and needs another watch.
                key = (path, path.stat().st_ino)
                if key in self._watched:
                    current[key] = self._watched.pop(key)
                else:
                    current[key] = self._watcher.watch(path, self._files_changed)
            except (OSError, HostError):
                continue  # it does not exist; the timer of a running machine covers it
        for number in self._watched.values():
            self._watcher.unwatch(number)
        self._watched = current

    def _files_changed(self) -> None:
        self._context.enqueue(ALL)

    def _files(self) -> Iterator[Path]:
        facts = self._facts()
        yield facts.instance.dir
        yield facts.docker_directory
        yield docker_contexts.metadata_path(facts.docker_directory, facts.instance.name).parent
        for path in kube_contexts.locations(facts.environment, facts.home):
            yield path.parent
        yield facts.machine.ha_stdout
