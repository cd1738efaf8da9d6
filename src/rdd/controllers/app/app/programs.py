# SPDX-License-Identifier: Apache-2.0
"""Programs that a change of the App needs are fetched before anything restarts.

Kubernetes runs with k3s and its images, which are files of this host for machines of all types. If
they are missing, the App creates Resources and, with consent, Checkouts, and holds the change
until the files are verified: a
failure leaves the running engine as it was. Consent is the setting `downloads.automatic`, or for
one fetch an annotation of the App (`rdd set --yes`); without it nothing is fetched.

A machine that does not run yet is not held: the engine starts alone, as it does after a failure.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.controllers.app.app.failures import failure
from rdd.controllers.app.app.reasons import settled
from rdd.controllers.app.commands import rdd_command
from rdd.controllers.app.k3s_versions_table import label_of, release_of
from rdd.controllers.environment import ControllerEnvironment
from rdd.fetch.failures import FetchFailure
from rdd.host.errors import FailureReason
from rdd.kinds.app import App
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import LimaVM
from rdd.kinds.resource import Checkout, Resource
from rdd.runtime import (
    Condition,
    Context,
    ObjectKey,
    conditions_of,
    find_condition,
    is_true,
    owner_reference,
    resource_of,
)
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import KubernetesSupport, ProgramSource

RUNNING_FETCHES = ("", "Fetching")
TRANSIENT = (FetchFailure.UNREACHABLE, FetchFailure.SERVER_ERROR)
"""Failures that the controller of Checkouts retries soon, so commands wait."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a change is not applied yet."""

    condition: Condition
    failure: Object | None = None
    is_fetching: bool = False
    """It ends by itself, so a machine that does not run waits for it, too."""


class ProgramFetch:
    """Fetches the program of Kubernetes for one App."""

    def __init__(self, context: Context, env: ControllerEnvironment) -> None:
        self._context = context
        self._env = env

    async def hold(self, app: App, driver: str, vm: LimaVM | None) -> Hold | None:
        """Return why the App must wait; None if it can go on."""
        if not (app.spec.running and app.spec.kubernetes.enabled):
            return None
        provider = catalog.provider(driver)
        if not isinstance(provider, KubernetesSupport):
            return None
        release = release_of(app.spec.kubernetes.version)
        environment = self._env.environment
        # Looks for files and runs `k3s --version`.
        sources = await asyncio.to_thread(provider.kubernetes_files, release, environment)
        if not sources:
            return None
        missing = await asyncio.to_thread(provider.missing_kubernetes, release, environment)
        if not await self._describe(app, sources):
            return None  # the controller that could fetch them does not run
        found = (
            await self._fetch_all(app, sources) if is_approved(app) else self._not_approved(missing)
        )
        is_up = vm is not None and is_true(conditions_of(vm.raw), names.RUNNING)
        return found if found is not None and (is_up or found.is_fetching) else None

    async def use(self, app: App, vm: LimaVM) -> bool:
        """Restart a machine that started without a fetched program; return whether it changed.

        Consent holds for one fetch, so it ends here.
        """
        if names.DOWNLOADS_APPROVED not in app.metadata.annotations:
            return False
        client = self._context.client
        ready = find_condition(conditions_of(app.raw), names.KUBERNETES_READY) or {}
        is_current = ready.get("observedGeneration") == app.metadata.generation
        has_started_alone = is_current and ready.get("reason") == "NotInstalled"
        if vm.spec.running and app.spec.kubernetes.enabled and has_started_alone:
            now = timestamps.now_text(self._context.clock)
            request = {"metadata": {"annotations": {names.RESTART_REQUESTED: now}}}
            key = ObjectKey.of(vm.raw)
            await client.patch(resource_of(LimaVM), key.name, request, namespace=key.namespace)
        used = {"metadata": {"annotations": {names.DOWNLOADS_APPROVED: None}}}
        await client.patch(resource_of(App), app.metadata.name, used)
        return True

    def _not_approved(self, missing: str) -> Hold:
        remedy = rdd_command(self._env.instance, "set --yes kubernetes.enabled=true")
        return Hold(
            settled("NotInstalled", f"{missing}; to change that: {remedy}"),
            failure(FailureReason.NOT_INSTALLED, remedy),
        )

    async def _fetch_all(self, app: App, sources: Sequence[ProgramSource]) -> Hold | None:
        """Return the state of the first file that is not there yet; None if all are.

        One after the other: the program is the last one, and means that the release is complete.
        """
        for source in sources:
            if (hold := await self._fetch(app, source)) is not None:
                return hold
        return None

    async def _fetch(self, app: App, source: ProgramSource) -> Hold | None:
        """Return the state of the Checkout, created if it is missing; None if it is done."""
        name = object_name(source.name)
        key = ObjectKey(app.spec.namespace, name)
        found = await self._get(Checkout, key)
        if found is None:
            await self._create(Checkout, self._checkout(app, source))
            return Hold(settled("Fetching", f"Fetching {source.name}"), is_fetching=True)
        ready = find_condition(conditions_of(found), "Ready") or {}
        if ready.get("status") == "True":
            if await asyncio.to_thread(source.path.exists):
                return None
            # It was removed since: fetch it again.
            await self._delete(Checkout, key)
            return Hold(settled("Fetching", f"Fetching {source.name}"), is_fetching=True)
        reason = ready.get("reason", "")
        if reason in RUNNING_FETCHES:
            progress = (found.get("status") or {}).get("progress") or f"Fetching {source.name}"
            return Hold(settled("Fetching", progress), is_fetching=True)
        remedy = rdd_command(self._env.instance, "set --yes kubernetes.enabled=true")
        return Hold(
            settled("FetchFailed", str(ready.get("message", ""))),
            None if reason in TRANSIENT else failure(reason, remedy),
        )

    def _resource(self, app: App, source: ProgramSource) -> Object:
        version = app.spec.kubernetes.version
        return {
            "metadata": {
                "name": object_name(source.name),
                "labels": {names.KUBERNETES_VERSION_LABEL: label_of(version)},
            },
            "spec": {
                "url": source.url,
                **({"digest": source.digest} if source.digest else {}),
                **({"checksumURL": source.checksum_url} if source.checksum_url else {}),
                "category": "k3s",
            },
        }

    def _checkout(self, app: App, source: ProgramSource) -> Object:
        name = object_name(source.name)
        how = {"executable": True} if source.is_program else {"readonly": True}
        return {
            "metadata": {
                "name": name,
                "namespace": app.spec.namespace,
                "ownerReferences": [owner_reference(app.raw)],
            },
            "spec": {"resource": name, "destination": str(source.path), **how},
        }

    async def _describe(self, app: App, sources: Sequence[ProgramSource]) -> bool:
        """Create the Resources that are missing; return False if the kind is not served."""
        try:
            for source in sources:
                await self._create(Resource, self._resource(app, source))
        except errors.NotFound:
            return False
        return True

    async def _create(self, kind: type[Kind], wanted: Object) -> None:
        try:
            await self._context.client.create(resource_of(kind), wanted)
        except errors.AlreadyExists:
            pass

    async def _get(self, kind: type[Checkout], key: ObjectKey) -> Object | None:
        try:
            return await self._context.client.get(
                resource_of(kind), key.name, namespace=key.namespace
            )
        except errors.NotFound:
            return None

    async def _delete(self, kind: type[Checkout], key: ObjectKey) -> None:
        try:
            await self._context.client.delete(resource_of(kind), key.name, namespace=key.namespace)
        except errors.NotFound:
            pass


def is_approved(app: App) -> bool:
    """Return whether the program may be fetched."""
    return app.spec.downloads.automatic or names.DOWNLOADS_APPROVED in app.metadata.annotations


def object_name(program: str) -> str:
    """Return the name of the objects of a program: `k3s v1.33.7+k3s3` is `k3s-v1.33.7-k3s3`."""
    return re.sub(r"[^a-z0-9.-]+", "-", program.lower())
