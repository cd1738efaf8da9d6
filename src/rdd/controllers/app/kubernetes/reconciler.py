# SPDX-License-Identifier: Apache-2.0
"""What KubernetesReady says.

    disabled               contexts go     False/NotApplicable
    machine not known      contexts stay   what was said
    no machine running     contexts go     False/NotRunning
    no k3s for the host                    False/NotInstalled, again after 15 s
    API does not answer                    False/Probing, again after 0.5, 1, 2, 4, 5 s
    contexts not written                   False/MergeFailed, again after a growing pause
    no node ready                          False/WaitingForNode, the same
    otherwise                              True/Ready, again after 15 s

Once it is ready, nodes are not looked at any more, and two attempts without an answer are
forgiven. A later generation is confirmed only after the App controller has seen it and the
machine runs with its template: what answers before that is still the old cluster.
"""

import asyncio
import logging

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client import kubeconfig
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError
from rdd.controllers.app.app.reasons import KUBERNETES_READY, SETTLED, Said, said
from rdd.controllers.app.app.status import conditions_of
from rdd.controllers.app.k3s_versions_table import VERSIONS
from rdd.controllers.app.kubernetes import probe
from rdd.controllers.app.kubernetes.contexts import Contexts
from rdd.controllers.app.kubernetes.probe import Health
from rdd.controllers.environment import ControllerEnvironment
from rdd.host.errors import HostError
from rdd.kinds.app import App
from rdd.runtime import (
    Condition,
    Context,
    ObjectKey,
    Result,
    apply_status,
    find_condition,
    is_deleting,
    is_true,
    resource_of,
)
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import KubernetesSupport

log = logging.getLogger("rdd.controllers.kubernetes")

FIELD_MANAGER = "kubernetes-controller"
FIRST_RETRY_S = 0.5
"""The first look again after a machine came up; the pauses then double."""
RETRY_S = 5.0
HEALTHY_S = 15.0
LONGEST_MERGE_RETRY_S = 300.0
TOLERATED = 3
"""Attempts in a row without an answer after which a cluster is no longer ready."""


class KubernetesReconciler:
    """Follows the cluster of the App."""

    def __init__(self, context: Context, env: ControllerEnvironment) -> None:
        self._context = context
        self._client = context.client
        self._env = env
        self._contexts = Contexts(env)
        self._unanswered = 0
        self._retry_s = FIRST_RETRY_S
        self._merge_retry_s = RETRY_S
        self._merge_due_s = 0.0
        self._due_s = 0.0
        self._ready_since = ""
        """When the machine came up that was found ready; empty: none was by this process."""

    async def begin(self) -> None:
        """That the cluster was ready for another process says nothing about now."""
        try:
            app = App.of(await self._client.get(resource_of(App), names.APP_NAME))
        except errors.NotFound:
            return
        if is_true(conditions_of(app), KUBERNETES_READY):
            await self._say(app, said(KUBERNETES_READY, "Reconciling"))

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at the cluster once."""
        try:
            found = await self._client.get(resource_of(App), key.name)
        except errors.NotFound:
            await self._contexts.remove()
            return Result.done()
        app = App.of(found)
        if is_deleting(found):
            return await self._without(app, "NotRunning")
        if not app.spec.kubernetes.enabled:
            return await self._without(app, "NotApplicable")
        running = find_condition(conditions_of(app), names.RUNNING) or {}
        if running.get("status") == "Unknown":
            return Result.done()  # it is being found out: the App is written when it is
        if running.get("status") != "True":
            return await self._without(app, "NotRunning")
        return await self._look(app, running)

    async def drain(self) -> None:
        """The machines end with this process, so kubectl must not be led to them."""
        await self._contexts.remove()
        try:
            app = App.of(await self._client.get(resource_of(App), names.APP_NAME))
            if is_true(conditions_of(app), KUBERNETES_READY):
                await self._say(app, said(KUBERNETES_READY, "NotRunning"))
        except errors.ApiError as error:
            log.debug("not said that the cluster is gone: %s", error)

    async def _without(self, app: App, reason: str) -> Result:
        """There is no cluster."""
        self._unanswered, self._ready_since, self._due_s = 0, "", 0.0
        self._retry_s = FIRST_RETRY_S
        problem = await self._contexts.remove()
        message = said(KUBERNETES_READY, reason).message
        if problem:
            message += f"; its context could not be removed: {problem}"
        await self._say(app, said(KUBERNETES_READY, reason, message))
        return Result.requeue(LONGEST_MERGE_RETRY_S) if problem else Result.done()

    async def _look(self, app: App, running: Object) -> Result:
        known = find_condition(conditions_of(app), KUBERNETES_READY) or {}
        came_up = str(running.get("lastTransitionTime") or "")
        # Ready for the process before us is ready, if nothing has come in between.
        was_ready = known.get("status") == "True" or known.get("reason") == "Reconciling"
        is_ready = was_ready and self._ready_since in ("", came_up)
        is_confirmed = known.get("observedGeneration") == app.metadata.generation
        left_s = self._due_s - asyncio.get_running_loop().time()
        if is_ready and is_confirmed and self._ready_since and left_s > 0:
            return Result.requeue(left_s)
        connection = await self._connection(app)
        if isinstance(connection, Said):
            await self._say(app, connection)
            return (
                Result.requeue(HEALTHY_S) if connection.reason == "NotInstalled" else self._soon()
            )
        health = await probe.health_of(connection)
        if health is not Health.HEALTHY:
            return await self._unhealthy(app, health, is_ready=is_ready)
        self._unanswered = 0
        pause_s = self._merge_due_s - asyncio.get_running_loop().time()
        if is_confirmed and known["reason"] == "MergeFailed" and pause_s > 0:
            return Result.requeue(pause_s)
        try:
            await self._contexts.publish()
        except HostError as error:
            return await self._not_merged(app, error)
        self._merge_retry_s = RETRY_S
        if not is_ready:
            if missing := await probe.missing_node(connection):
                await self._say(app, said(KUBERNETES_READY, "WaitingForNode", missing))
                return self._soon()
            await self._contexts.choose()
        if not is_confirmed and not _is_template_applied(app):
            return Result.requeue(RETRY_S)  # the App controller writes when it is
        self._ready_since = came_up
        self._due_s = asyncio.get_running_loop().time() + HEALTHY_S
        await self._say(app, said(KUBERNETES_READY, "Ready"))
        return Result.requeue(HEALTHY_S)

    async def _connection(self, app: App) -> ConnectionConfig | Said:
        """How to reach the cluster, or why that is not known."""
        driver = app.status.virtual_machine_type
        provider = catalog.provider(driver) if driver else None
        if isinstance(provider, KubernetesSupport):
            release = VERSIONS.get(app.spec.kubernetes.version, "")
            why = await asyncio.to_thread(
                provider.missing_kubernetes, release, self._env.environment
            )
            if why:
                return said(KUBERNETES_READY, "NotInstalled", why)
        try:
            path = self._env.instance.k3s_config
            return await asyncio.to_thread(kubeconfig.load, path)
        except KubeconfigError:
            return said(KUBERNETES_READY, "Probing")

    async def _unhealthy(self, app: App, health: Health, *, is_ready: bool) -> Result:
        if health is Health.AMBIGUOUS and is_ready:
            self._unanswered += 1
            if self._unanswered < TOLERATED:
                return Result.requeue(RETRY_S)
        self._unanswered, self._ready_since = 0, ""
        await self._say(app, said(KUBERNETES_READY, "Probing"))
        return self._soon()

    def _soon(self) -> Result:
        pause_s, self._retry_s = self._retry_s, min(self._retry_s * 2, RETRY_S)
        return Result.requeue(pause_s)

    async def _not_merged(self, app: App, error: HostError) -> Result:
        self._ready_since = ""
        self._contexts.report(str(error))
        await self._say(app, said(KUBERNETES_READY, "MergeFailed", str(error)))
        pause_s = self._merge_retry_s
        self._merge_retry_s = min(pause_s * 2, LONGEST_MERGE_RETRY_S)
        self._merge_due_s = asyncio.get_running_loop().time() + pause_s
        return Result.requeue(pause_s)

    async def _say(self, app: App, what: Said) -> None:
        """Write the condition, for the generation that was looked at."""
        known = find_condition(conditions_of(app), KUBERNETES_READY) or {}
        wanted = Condition(
            what.type, what.status, what.reason, what.message, app.metadata.generation
        ).to_object(conditions_of(app), now=timestamps.now_text(self._context.clock))
        if wanted == known:
            return
        try:
            await apply_status(
                self._client,
                App,
                ObjectKey.of(app.raw),
                {"conditions": [wanted]},
                field_manager=FIELD_MANAGER,
            )
        except errors.NotFound:
            return
        if known.get("reason") != what.reason:
            self._context.events.event(
                app.raw,
                "Warning" if what.reason in ("MergeFailed", "NotInstalled") else "Normal",
                "ConditionChanged",
                f"{what.type}={what.status}: {what.message} ({what.reason})",
            )


def _is_template_applied(app: App) -> bool:
    """Whether the App controller says that the machine runs with what this generation asks for."""
    settled = find_condition(conditions_of(app), SETTLED) or {}
    has_looked = settled.get("observedGeneration") == app.metadata.generation
    return has_looked and settled.get("reason") != "ApplyingTemplate"
