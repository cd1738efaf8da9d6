# SPDX-License-Identifier: Apache-2.0
"""Namespace deletion: empty a terminating namespace, then finalize it.

The controller deletes all objects, by kind, several kinds concurrently. Finalizers hold the
remaining objects; the conditions of the namespace list them. The controller does not poll: it
watches the remaining objects and processes the namespace again when one is deleted. When the
namespace is empty, it removes the finalizer `kubernetes` from the spec, which deletes it.

A kind whose objects cannot be deleted (a webhook rejects, a list fails) does not block other
kinds or namespaces; it is retried with exponential backoff, and the conditions show the
reason.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client import ApiResource, Client, Unreachable
from rdd.client.resources import NAMESPACES
from rdd.controllers.builtin.handled_queue import HandledQueue, Retry
from rdd.controllers.builtin.namespace_conditions import Findings
from rdd.runtime.conditions import set_condition

log = logging.getLogger("rdd.controllers.builtin")

FIELD_MANAGER = "kube-controller-manager"
WORKERS = 10
_KINDS_AT_ONCE = 8
_RECHECK_S = 1.0


class NamespaceController:
    """The controller `namespace`."""

    name = "namespace"

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self.synced = asyncio.Event()
        self.queue = HandledQueue(self.name, self._sync, workers=WORKERS)
        self._waiting: dict[str, list[asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self.queue.run(), name="rdd-namespace-queue")
                await self._watch_namespaces()
        finally:
            self._group = None
            self._waiting.clear()

    async def _watch_namespaces(self) -> None:
        changes = self._client.list_and_watch(
            NAMESPACES, metadata_only=True, keep=lambda _, body: b'"deletionTimestamp":' in body
        )
        async with aclosing(changes):
            async for event in changes:
                if event.type == "SYNCED":
                    self.synced.set()
                elif event.type in ("ADDED", "MODIFIED", "DELETED"):
                    metadata = event.object["metadata"]
                    if metadata.get("deletionTimestamp"):
                        self.queue.add(metadata["name"])

    async def _sync(self, name: str) -> None:
        for task in self._waiting.pop(name, ()):
            task.cancel()
        try:
            namespace = await self._client.get(NAMESPACES, name)
            if not namespace["metadata"].get("deletionTimestamp"):
                return
            findings, versions = await self._empty(name)
            namespace = await self._report(namespace, findings)
            self._wait(name, versions)
            if findings.failures or findings.discovery_error:
                raise Retry(findings.discovery_error or "; ".join(sorted(findings.failures)))
            if not findings.remaining:
                await self._finish(namespace)
        except errors.NotFound:
            return

    # -- emptying

    async def _empty(self, name: str) -> tuple[Findings, dict[ApiResource, str]]:
        """Delete the content; return the findings and the list version of remaining resources."""
        findings = Findings()
        versions: dict[ApiResource, str] = {}
        try:
            found = await self._client.discover()
        except (errors.ApiError, Unreachable) as error:
            findings.discovery_error = str(error)
            return findings, versions
        if found.stale:
            findings.discovery_error = _stale(found.stale)
        slots = asyncio.Semaphore(_KINDS_AT_ONCE)

        async def work(resource: ApiResource) -> None:
            async with slots:
                try:
                    remaining, version = await self._delete_all(resource, name)
                except (errors.ApiError, Unreachable) as error:
                    findings.failures.append(str(error))
                    return
            if not remaining:
                return
            versions[resource] = version
            findings.remaining[resource] = len(remaining)
            held = Counter(f for o in remaining for f in o["metadata"].get("finalizers") or ())
            findings.finalizers += held
            if not held:
                findings.failures.append(
                    f"unexpected items still remain in namespace: {name} for gvr: {resource}"
                )

        async with asyncio.TaskGroup() as group:
            for resource in found.preferred().values():
                if resource.namespaced and "delete" in resource.verbs:
                    group.create_task(work(resource), name=f"rdd-namespace-empty {name}")
        return findings, versions

    async def _delete_all(self, resource: ApiResource, name: str) -> tuple[list[Object], str]:
        """Delete all objects of a kind; return the remaining ones and their list version."""
        client = self._client
        try:
            if "deletecollection" in resource.verbs:
                # All dependents are deleted, too: no need to orphan or to wait for them.
                await client.delete_collection(
                    resource, namespace=name, propagation_policy="Background"
                )
            else:
                for obj in (await client.list(resource, namespace=name, metadata_only=True)).items:
                    await self._delete(resource, name, obj["metadata"]["name"])
            found = await client.list(resource, namespace=name, metadata_only=True)
        except (errors.NotFound, errors.MethodNotAllowed):
            return [], ""  # its CRD was deleted, or it cannot be listed
        return found.items, found.resource_version

    async def _delete(self, resource: ApiResource, namespace: str, name: str) -> None:
        try:
            await self._client.delete(
                resource, name, namespace=namespace, propagation_policy="Background"
            )
        except errors.NotFound:
            return

    # -- status and finalization

    async def _report(self, namespace: Object, findings: Findings) -> Object:
        status = namespace.get("status") or {}
        before = status.get("conditions") or []
        now = timestamps.now_text(self._clock)
        conditions = set_condition(before, *findings.conditions(), now=now)
        if conditions == before:
            return namespace
        changed = {**namespace, "status": {**status, "conditions": conditions}}
        return await self._client.update(
            NAMESPACES, changed, subresource="status", field_manager=FIELD_MANAGER
        )

    async def _finish(self, namespace: Object) -> None:
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        if names.NAMESPACE_FINALIZER in finalizers:
            kept = [f for f in finalizers if f != names.NAMESPACE_FINALIZER]
            spec = {**namespace["spec"], "finalizers": kept}
            await self._client.update(
                NAMESPACES,
                {**namespace, "spec": spec},
                subresource="finalize",
                field_manager=FIELD_MANAGER,
            )
        elif not finalizers and not namespace["metadata"].get("finalizers"):
            # It was finalized before its deletion; a second DELETE removes it.
            metadata = namespace["metadata"]
            await self._client.delete(NAMESPACES, metadata["name"], uid=metadata["uid"])

    # -- waiting for finalizers

    def _wait(self, name: str, versions: dict[ApiResource, str]) -> None:
        assert self._group is not None
        self._waiting[name] = [
            self._group.create_task(
                self._watch(name, resource, version), name=f"rdd-namespace-wait {name}"
            )
            for resource, version in versions.items()
        ]

    async def _watch(self, name: str, resource: ApiResource, version: str) -> None:
        changes = self._client.watch(
            resource, namespace=name, resource_version=version, metadata_only=True
        )
        try:
            async with aclosing(changes):
                async for event in changes:
                    if event.type == "DELETED":
                        self.queue.add(name)
                    elif event.type != "BOOKMARK":
                        # Its finalizers may have changed; update the conditions later.
                        self.queue.add_after(name, _RECHECK_S)
        except (errors.ApiError, Unreachable) as error:
            log.debug("namespace: waiting for %s in %s: %s", resource.qualified, name, error)
        self.queue.add_after(name, _RECHECK_S)


def _stale(versions: tuple[str, ...]) -> str:
    groups = ", ".join(f"{v}: stale GroupVersion discovery: {v}" for v in versions)
    return (
        f"Discovery failed for some groups, {len(versions)} failing: "
        f"unable to retrieve the complete list of server APIs: {groups}"
    )
