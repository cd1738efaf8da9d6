# SPDX-License-Identifier: Apache-2.0
"""Reconciles the condition KubernetesReady.

    disabled               remove contexts   False/NotApplicable
    machine unknown        keep contexts     unchanged
    machine not running    remove contexts   False/NotRunning
    no k3s for the host                      False/NotInstalled, retry after 15 s
    API does not respond                     False/Probing, retry after 0.5, 1, 2, 4, 5 s
    contexts not written                     False/MergeFailed, retry with exponential backoff
    no node ready                            False/WaitingForNode, like Probing
    otherwise                                True/Ready, probe again after 15 s

Once the cluster is ready, nodes are not probed any more, and two timeouts in a row are
tolerated. A later generation is confirmed only after the App controller has observed it and
the machine runs with its template: until then the old cluster responds.
"""

import asyncio
import logging

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.base.backoff import Backoff
from rdd.client import kubeconfig
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError
from rdd.controllers.app.app.reasons import kubernetes_ready
from rdd.controllers.app.commands import rdd_command
from rdd.controllers.app.k3s_versions_table import release_of
from rdd.controllers.app.kubernetes import probe
from rdd.controllers.app.kubernetes.contexts import KubeContexts
from rdd.controllers.app.kubernetes.probe import Health
from rdd.controllers.environment import ControllerEnvironment
from rdd.engine.errors import EngineFailure
from rdd.host.errors import HostError
from rdd.kinds.app import App
from rdd.runtime import (
    Condition,
    Context,
    ObjectKey,
    Result,
    StatusWriter,
    conditions_of,
    find_condition,
    is_deleting,
    is_true,
    record_transition,
    resource_of,
)
from rdd.vm.drivers import catalog
from rdd.vm.drivers.kubernetes_files import images_of
from rdd.vm.drivers.protocol import KubernetesSupport

log = logging.getLogger("rdd.controllers.kubernetes")

FIELD_MANAGER = "kubernetes-controller"
FIRST_RETRY_S = 0.5
"""The first delay after a machine came up; the following ones double up to RETRY_S."""
RETRY_S = 5.0
HEALTHY_S = 15.0
LONGEST_MERGE_RETRY_S = 300.0
TOLERATED = 3
"""The number of consecutive timeouts after which a cluster is no longer ready."""


class KubernetesReconciler:
    """Probes the cluster of the App."""

    def __init__(self, context: Context, env: ControllerEnvironment) -> None:
        self._context = context
        self._client = context.client
        self._env = env
        self._contexts = KubeContexts(env)
        self._status = StatusWriter(
            context,
            App,
            field_manager=FIELD_MANAGER,
            on_transition=record_transition(context, warnings=("NotInstalled",)),
        )
        self._timeouts = 0
        self._backoff = Backoff(FIRST_RETRY_S, RETRY_S)
        self._merge_backoff = Backoff(RETRY_S, LONGEST_MERGE_RETRY_S)
        self._merge_due_s = 0.0
        self._due_s = 0.0
        self._images_loaded_for = ("", "")
        """The release and the start of the machine that have the images of the cluster."""
        self._ready_since = ""
        """When the machine of the ready cluster came up; empty if this process found none ready."""

    async def begin(self) -> None:
        """Revert the condition of an earlier process."""
        try:
            app = App.of(await self._client.get(resource_of(App), names.APP_NAME))
        except errors.NotFound:
            return
        if is_true(conditions_of(app.raw), names.KUBERNETES_READY):
            await self._report(app, kubernetes_ready("Reconciling"))

    async def reconcile(self, key: ObjectKey) -> Result:
        """Probe the cluster once."""
        try:
            found = await self._client.get(resource_of(App), key.name)
        except errors.NotFound:
            await self._contexts.remove()
            return Result.done()
        app = App.of(found)
        if is_deleting(found):
            return await self._no_cluster(app, "NotRunning")
        if not app.spec.kubernetes.enabled:
            return await self._no_cluster(app, "NotApplicable")
        running = find_condition(conditions_of(app.raw), names.RUNNING) or {}
        if running.get("status") == "Unknown":
            return Result.done()  # the App changes when the state is known
        if running.get("status") != "True":
            return await self._no_cluster(app, "NotRunning")
        if is_true(conditions_of(app.raw), names.PAUSED):
            known = find_condition(conditions_of(app.raw), names.KUBERNETES_READY)
            if known is not None:  # a paused cluster stays what it was
                await self._report(app, kubernetes_ready(known["reason"], known["message"]))
            return Result.done()  # the App changes when the machine wakes up
        return await self._reconcile_cluster(app, running)

    async def drain(self) -> None:
        """Remove the contexts: the machines stop with this process."""
        await self._contexts.remove()
        try:
            app = App.of(await self._client.get(resource_of(App), names.APP_NAME))
            if is_true(conditions_of(app.raw), names.KUBERNETES_READY):
                await self._report(app, kubernetes_ready("NotRunning"))
        except errors.ApiError as error:
            log.debug("cannot report that the cluster is gone: %s", error)

    async def _no_cluster(self, app: App, reason: str) -> Result:
        """Remove the contexts and report a reason."""
        self._timeouts, self._ready_since, self._due_s = 0, "", 0.0
        self._backoff.reset()
        problem = await self._contexts.remove()
        message = kubernetes_ready(reason).message
        if problem:
            message += f"; its context could not be removed: {problem}"
        await self._report(app, kubernetes_ready(reason, message))
        return Result.requeue(LONGEST_MERGE_RETRY_S) if problem else Result.done()

    async def _reconcile_cluster(self, app: App, running: Object) -> Result:
        known = find_condition(conditions_of(app.raw), names.KUBERNETES_READY) or {}
        came_up = str(running.get("lastTransitionTime") or "")
        # A cluster that was ready for the previous process still is, unless the machine restarted.
        was_ready = known.get("status") == "True" or known.get("reason") == "Reconciling"
        is_ready = was_ready and self._ready_since in ("", came_up)
        is_confirmed = known.get("observedGeneration") == app.metadata.generation
        remaining_s = self._due_s - asyncio.get_running_loop().time()
        if is_ready and is_confirmed and self._ready_since and remaining_s > 0:
            return Result.requeue(remaining_s)
        await self._load_images(app, came_up)
        connection = await self._connection(app)
        if isinstance(connection, Condition):
            await self._report(app, connection)
            is_final = connection.reason == "NotInstalled"
            return Result.requeue(HEALTHY_S if is_final else self._backoff.next_s())
        health = await probe.health_of(connection)
        if health is not Health.HEALTHY:
            return await self._unhealthy(app, health, is_ready=is_ready)
        self._timeouts = 0
        retry_s = self._merge_due_s - asyncio.get_running_loop().time()
        if is_confirmed and known["reason"] == "MergeFailed" and retry_s > 0:
            return Result.requeue(retry_s)
        try:
            await self._contexts.publish()
        except HostError as error:
            return await self._not_merged(app, error)
        self._merge_backoff.reset()
        if not is_ready:
            if missing := await probe.missing_node(connection):
                await self._report(app, kubernetes_ready("WaitingForNode", missing))
                return Result.requeue(self._backoff.next_s())
            await self._contexts.choose()
        if not is_confirmed and not _is_template_applied(app):
            return Result.requeue(RETRY_S)  # the App changes when it is applied
        self._ready_since = came_up
        self._due_s = asyncio.get_running_loop().time() + HEALTHY_S
        await self._report(app, kubernetes_ready("Ready"))
        return Result.requeue(HEALTHY_S)

    async def _load_images(self, app: App, came_up: str) -> None:
        """Load the fetched images of the cluster into docker, once for each start."""
        release = release_of(app.spec.kubernetes.version)
        start = (release, came_up)
        if app.spec.container_engine.name != "moby" or start == self._images_loaded_for:
            return
        self._images_loaded_for = start
        archive = await asyncio.to_thread(images_of, release, self._env.environment)
        if archive is None:
            return
        from rdd.engine.image_archives import load_images  # rarely needed

        try:
            count = await load_images(archive, self._env.instance.docker_socket)
        except (HostError, EngineFailure, OSError) as error:
            # Not fatal: with a network, the cluster pulls them itself.
            self._context.events.event(app.raw, "Warning", "ImagesNotLoaded", str(error))
            return
        if count:
            message = f"Loaded {count} images of k3s {release}"
            self._context.events.event(app.raw, "Normal", "ImagesLoaded", message)

    async def _connection(self, app: App) -> ConnectionConfig | Condition:
        """Return the connection to the cluster, or the condition that reports its absence."""
        driver = app.status.virtual_machine_type
        provider = catalog.provider(driver) if driver else None
        path = self._env.instance.k3s_config
        # A guest that has its kubeconfig has a k3s, whatever this host has.
        if isinstance(provider, KubernetesSupport) and not path.exists():
            release = release_of(app.spec.kubernetes.version)
            why = await asyncio.to_thread(
                provider.missing_kubernetes, release, self._env.environment
            )
            if why:
                remedy = rdd_command(self._env.instance, "set --yes kubernetes.enabled=true")
                return kubernetes_ready("NotInstalled", f"{why}; to change that: {remedy}")
        try:
            return await asyncio.to_thread(kubeconfig.load, path)
        except KubeconfigError:
            return kubernetes_ready("Probing")

    async def _unhealthy(self, app: App, health: Health, *, is_ready: bool) -> Result:
        if health is Health.AMBIGUOUS and is_ready:
            self._timeouts += 1
            if self._timeouts < TOLERATED:
                return Result.requeue(RETRY_S)
        self._timeouts, self._ready_since = 0, ""
        await self._report(app, kubernetes_ready("Probing"))
        return Result.requeue(self._backoff.next_s())

    async def _not_merged(self, app: App, error: HostError) -> Result:
        self._ready_since = ""
        self._contexts.report(str(error))
        await self._report(app, kubernetes_ready("MergeFailed", str(error)))
        retry_s = self._merge_backoff.next_s()
        self._merge_due_s = asyncio.get_running_loop().time() + retry_s
        return Result.requeue(retry_s)

    async def _report(self, app: App, condition: Condition) -> None:
        """Write the condition for the generation of `app`."""
        try:
            await self._status.write(app.raw, condition)
        except errors.NotFound:
            pass  # the App is gone


def _is_template_applied(app: App) -> bool:
    """Return whether the App controller has applied the template of this generation."""
    settled = find_condition(conditions_of(app.raw), names.SETTLED) or {}
    is_observed = settled.get("observedGeneration") == app.metadata.generation
    return is_observed and settled.get("reason") != "ApplyingTemplate"
