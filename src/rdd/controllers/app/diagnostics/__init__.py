# SPDX-License-Identifier: Apache-2.0
"""diagnostics: runs checks for common problems and reports findings with fixes.

There is one Diagnostic per check. The controller runs a check whenever the App changes and
every two minutes, in a thread, and writes its Diagnostic only when the finding changes. It
recreates a deleted Diagnostic and ignores those without a check.
"""

import asyncio

from rdd.api import errors, names
from rdd.controllers.app.diagnostics import checks
from rdd.controllers.app.diagnostics.findings import Facts
from rdd.controllers.environment import ControllerEnvironment
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
    resource_of,
    watch,
)

_INTERVAL_S = 120.0


def diagnostics(env: ControllerEnvironment) -> Controller:
    """Create the controller of Diagnostics."""
    keys = [ObjectKey("", name) for name in checks.CHECKS]
    return Controller(
        "diagnostics",
        lambda context: DiagnosticsReconciler(context, env),
        sources=(watch(Diagnostic), maps(App, lambda app: keys)),
        definitions=(definition_of(Diagnostic),),
    )


class DiagnosticsReconciler:
    """Runs the checks and writes the Diagnostics."""

    def __init__(self, context: Context, env: ControllerEnvironment) -> None:
        self._context = context
        self._env = env
        self._status = StatusWriter(context, Diagnostic, has_generation=False)
        self._diagnostics = context.cache.of(Diagnostic)
        self._apps = context.cache.of(App)
        for name in checks.CHECKS:
            context.enqueue(ObjectKey("", name))

    async def reconcile(self, key: ObjectKey) -> Result:
        """Run a check and write its finding."""
        if key.name not in checks.CHECKS:
            return Result.done()
        app = self._apps.get(ObjectKey("", names.APP_NAME))
        facts = Facts(
            self._env.instance,
            self._env.home,
            self._env.environment,
            app.raw if app else None,
        )
        finding = await asyncio.to_thread(checks.run, key.name, facts)
        found = self._diagnostics.get(key)
        client = self._context.client
        try:
            if found is None:
                made = Diagnostic(metadata=ObjectMeta(name=key.name)).raw
                found = Diagnostic.of(await client.create(resource_of(Diagnostic), made))
        except errors.AlreadyExists:
            return Result.requeue(_INTERVAL_S)  # the cache is stale
        await self._status.write(
            found.raw,
            Condition(names.HEALTHY, finding.healthy, finding.reason, finding.message),
            members={"evidence": list(finding.evidence), "nextStep": finding.next_step or None},
        )
        return Result.requeue(_INTERVAL_S)
