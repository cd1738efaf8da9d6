# SPDX-License-Identifier: Apache-2.0
"""diagnostics: looks at what users stumble over, and says what to do about it.

There is one Diagnostic per check. A check runs again whenever the App changes and
every two minutes, in a thread; its Diagnostic is written only when the finding is
another. One that is deleted comes back, one of a name no check has is left alone.
"""

import asyncio

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.controllers.app.diagnostics import checks
from rdd.controllers.app.diagnostics.findings import Facts, Finding
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
    maps,
    patch_status,
    resource_of,
    set_condition,
    watch,
)

_INTERVAL_S = 120.0


def diagnostics(env: ControllerEnvironment) -> Controller:
    """The controller of Diagnostics."""
    keys = [ObjectKey("", name) for name in checks.CHECKS]
    return Controller(
        "diagnostics",
        lambda context: DiagnosticsReconciler(context, env),
        sources=(watch(Diagnostic), maps(App, lambda app: keys)),
        definitions=(definition_of(Diagnostic),),
    )


class DiagnosticsReconciler:
    """Keeps the Diagnostics up to date."""

    def __init__(self, context: Context, env: ControllerEnvironment) -> None:
        self._context = context
        self._env = env
        self._diagnostics = context.cache.of(Diagnostic)
        self._apps = context.cache.of(App)
        for name in checks.CHECKS:
            context.enqueue(ObjectKey("", name))

    async def reconcile(self, key: ObjectKey) -> Result:
        """Run a check and write what it found."""
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
            return Result.requeue(_INTERVAL_S)  # seen in a moment
        await patch_status(client, Diagnostic, found.raw, self._status(found.raw, finding))
        return Result.requeue(_INTERVAL_S)

    def _status(self, obj: Object, finding: Finding) -> Object:
        conditions = set_condition(
            (obj.get("status") or {}).get("conditions") or [],
            Condition(names.HEALTHY, finding.healthy, finding.reason, finding.message),
            now=timestamps.now_text(self._context.clock),
        )
        status: Object = {"conditions": conditions, "evidence": list(finding.evidence)}
        if finding.next_step:
            status["nextStep"] = finding.next_step
        return status
