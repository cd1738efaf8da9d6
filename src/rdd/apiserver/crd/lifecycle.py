# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of CRDs: accepting names, serving versions, deleting objects.

One task processes the changes of CRDs in the cache, in order:

- names are accepted unless another CRD of the group holds them;
- an accepted CRD is served (registered) and then marked as Established, so a client that observes
  the condition can use the resource at once;
- an updated CRD is registered again, and its objects are pruned and defaulted by the new schema;
- a deleted CRD loses its objects first, then its finalizer.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from rdd.api import errors, names
from rdd.api.conditions import Condition, conditions_of, find_condition, is_true, set_condition
from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.admission.client import WebhookClient
from rdd.apiserver.components import Core
from rdd.apiserver.crd.accepted_names import AcceptedNames
from rdd.apiserver.crd.conversion import Converter
from rdd.apiserver.crd.resources import CustomResource, CustomStrategy, make_resource, refresher
from rdd.apiserver.http import options
from rdd.apiserver.http.request import SYSTEM, Request
from rdd.apiserver.resources import Resource
from rdd.apiserver.state.entries import CacheEntry, ObjectChange
from rdd.apiserver.verbs import delete, writes

log = logging.getLogger("rdd.apiserver.crd.lifecycle")

_RETRY_S = 1.0
_NAME_MEMBERS = (
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
)


_NAMES_ACCEPTED = Condition(names.NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found")
_ESTABLISHED = Condition(
    names.ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted"
)
_NOT_ESTABLISHED = Condition(
    names.ESTABLISHED, "False", "NotAccepted", "not all names are accepted"
)
_DELETING = Condition(
    "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)


class CustomResources:
    """Keeps the registry in sync with the CRDs in the cache."""

    def __init__(self, core: Core, definitions: Resource, webhooks: WebhookClient) -> None:
        self._core = core
        self._definitions = definitions
        self._served: dict[str, list[CustomResource]] = {}
        self._spec_seen: dict[str, Any] = {}
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._webhooks = webhooks
        self._idle = asyncio.Event()
        self._names = AcceptedNames(definitions)
        definitions.cache.listeners.append(self._changed)

    def load(self) -> None:
        """Serve the CRDs that were established before."""
        for entry in self._definitions.cache.entries():
            crd = self._definitions.object(entry)
            if is_true(conditions_of(crd), names.ESTABLISHED):
                try:
                    self._serve(crd, changed_at=entry.revision)
                except Exception:  # one definition must not keep the API from starting
                    log.exception("CustomResourceDefinition %s cannot be served", entry.name)
            if not _is_settled(crd):
                self._dirty[entry.name] = None
        if self._dirty:
            self._wake.set()

    def served(self, name: str) -> Sequence[Resource]:
        """Return the resources of a CRD, one per served version."""
        return self._served.get(name, [])

    def _changed(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            self._dirty[change.entry.name] = None
        self._wake.set()
        self._idle.clear()

    async def settled(self) -> None:
        """Wait until all changes so far are processed (except retries)."""
        await self._idle.wait()

    async def run(self) -> None:
        """Process changes until cancelled."""
        while True:
            if not self._dirty:
                self._idle.set()
            await self._wake.wait()
            self._wake.clear()
            while self._dirty:
                name = next(iter(self._dirty))
                del self._dirty[name]
                # Most rounds wait for nothing: without a pause a thousand would be one.
                await asyncio.sleep(0)
                try:
                    await self._sync(name)
                except errors.Conflict:
                    self._dirty[name] = None  # it changed concurrently: retry
                except errors.ApiError as error:
                    log.warning("CustomResourceDefinition %s: %s", name, error.message)
                    asyncio.get_running_loop().call_later(_RETRY_S, self._enqueue, name)

    def _enqueue(self, name: str) -> None:
        self._dirty[name] = None
        self._wake.set()

    async def _sync(self, name: str) -> None:
        entry = self._definitions.cache.get("", name)
        if entry is None:
            self._withdraw(name)
            # Another CRD may be waiting for the names it held.
            for other in self._names.waiting(name):
                self._dirty[other] = None
            return
        crd = self._definitions.object(entry)
        if crd["metadata"].get("deletionTimestamp"):
            for resource in self.served(name):
                resource.is_terminating = True
            await self._clean_up(crd)
            return
        status = self._naming(crd)
        if is_true(status["conditions"], names.ESTABLISHED):
            served = {**crd, "status": status}
            if self._spec_seen.get(name) != _basis(served):
                compiled = await _compile(crd["spec"], len(entry.body))
                self._serve(served, changed_at=entry.revision, compiled=compiled)
        if status != crd.get("status"):
            await self._write_status(entry, status)

    # -- serving

    def _serve(
        self, crd: Object, *, changed_at: int, compiled: Mapping[str, CustomStrategy] = {}
    ) -> None:
        name = crd["metadata"]["name"]
        previous = self._served.get(name, [])
        self._spec_seen[name] = _basis(crd)
        spec = crd["spec"]
        storage = next(v for v in spec["versions"] if v.get("storage"))
        prefix = f"/registry/{spec['group']}/{spec['names']['plural']}/"
        cache = self._core.cache.resource(prefix, namespaced=spec["scope"] == "Namespaced")
        resources = [
            make_resource(crd, v, cache, storage, compiled=compiled.get)
            for v in spec["versions"]
            if v.get("served")
        ]
        if _converts_by_webhook(spec):
            converter = Converter(spec, self._webhooks)
            for resource in resources:
                resource.convert_with(converter)
        kept = {r.key for r in resources}
        for old in previous:
            self._core.end_watches(old)
            if old.key not in kept:
                self._core.registry.remove(*old.key)
        for resource in resources:
            self._core.registry.add(resource)
        self._served[name] = resources
        if cache.count:
            strategy = compiled.get(storage["name"]) or CustomStrategy(spec, storage)
            cache.reform(refresher(strategy), before=changed_at)

    def _withdraw(self, name: str) -> None:
        self._spec_seen.pop(name, None)
        for resource in self._served.pop(name, []):
            self._core.registry.remove(*resource.key)
            self._core.end_watches(resource)
            if not resource.cache.count:
                self._core.cache.drop(resource.cache.prefix)

    # -- names

    def _naming(self, crd: Object) -> dict[str, Any]:
        """Return the status of a CRD: accepted names and the two conditions about them."""
        spec = crd["spec"]
        wanted = spec["names"]
        status = dict(crd.get("status") or {})
        taken = self._names.taken(crd["metadata"]["name"])
        accepted = dict(status.get("acceptedNames") or {})
        problem: tuple[str, str] | None = None
        for member, reason in _NAME_MEMBERS:
            conflict = _conflict(member, wanted, taken)
            if conflict:
                problem = (reason, conflict)
            elif member in wanted:
                accepted[member] = wanted[member]
            else:
                accepted.pop(member, None)
        if wanted.get("categories"):
            accepted["categories"] = wanted["categories"]
        else:
            accepted.pop("categories", None)
        status["acceptedNames"] = {
            k: accepted.get(k, "" if k in ("kind", "plural") else None)
            for k in ("plural", "singular", "shortNames", "kind", "listKind", "categories")
            if k in ("kind", "plural") or accepted.get(k)
        }
        conditions = conditions_of(crd)
        if problem is not None:
            wanted_conditions = [Condition(names.NAMES_ACCEPTED, "False", *problem)]
            if find_condition(conditions, names.ESTABLISHED) is None:
                wanted_conditions.append(_NOT_ESTABLISHED)
        else:
            wanted_conditions = [_NAMES_ACCEPTED]
            if not is_true(conditions, names.ESTABLISHED):
                wanted_conditions.append(_ESTABLISHED)
        conditions = set_condition(conditions, *wanted_conditions, now=self._core.now_text())
        status["conditions"] = conditions
        return status

    def _write(self, name: str, subresource: str = "") -> writes.Write:
        """Return a write of the server itself to a CRD."""
        path = f"{self._definitions.path_base}/customresourcedefinitions/{name}"
        return writes.Write(
            self._core,
            Request("PUT", path, headers={}, user=SYSTEM),
            self._definitions,
            options.WriteOptions(),
            "UpdateOptions",
            "kube-apiserver",
            "",
            name,
            subresource=subresource,
        )

    async def _write_status(self, entry: CacheEntry, status: dict[str, Any]) -> None:
        write = self._write(entry.name, "status")

        async def build(current: CacheEntry | None, old: Object | None) -> Object:
            assert old is not None
            if current is not None and current.revision != entry.revision:
                # It changed concurrently; that change is processed separately.
                return old
            return {**old, "metadata": dict(old["metadata"]), "status": status}

        await writes.replace(write, build)

    # -- deletion

    async def _clean_up(self, crd: Object) -> None:
        """Delete the objects of a CRD, then remove its finalizer."""
        name = crd["metadata"]["name"]
        if names.CRD_CLEANUP_FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return
        resources = self._served.get(name) or []
        remaining = 0
        if resources:
            resource = resources[0]
            remaining = await self._delete_objects(resource)
        if remaining:
            await self._report_deletion(crd)
            asyncio.get_running_loop().call_later(_RETRY_S, self._enqueue, name)
            return
        await self._finish_deletion(crd)

    async def _delete_objects(self, resource: Resource) -> int:
        request = Request("DELETE", resource.path_base, headers={}, user=SYSTEM)
        opts = options.DeleteOptions()
        for entry in list(resource.cache.entries()):
            try:
                await delete.remove(
                    self._core, request, resource, entry.namespace, entry.name, opts
                )
            except errors.NotFound:
                continue
        return resource.cache.count

    async def _report_deletion(self, crd: Object) -> None:
        entry = self._definitions.cache.get("", crd["metadata"]["name"])
        if entry is None:
            return
        present = conditions_of(crd)
        conditions = set_condition(present, _DELETING, now=self._core.now_text())
        if conditions is not present:
            await self._write_status(entry, {**(crd.get("status") or {}), "conditions": conditions})

    async def _finish_deletion(self, crd: Object) -> None:
        name = crd["metadata"]["name"]
        write = self._write(name)

        async def build(current: CacheEntry | None, old: Object | None) -> Object:
            assert old is not None
            meta = dict(old["metadata"])
            meta["finalizers"] = [
                f for f in meta.get("finalizers") or () if f != names.CRD_CLEANUP_FINALIZER
            ]
            if not meta["finalizers"]:
                del meta["finalizers"]
            return {**old, "metadata": meta}

        self._withdraw(name)
        try:
            await writes.replace(write, build)
        except errors.NotFound:
            return


def _basis(crd: Object) -> object:
    """Return what the served resources depend on."""
    return crd["spec"], crd["status"].get("acceptedNames")


async def _compile(spec: Mapping[str, Any], size: int) -> dict[str, CustomStrategy]:
    """Compile the versions of a large CRD in a thread: 40,000 properties take 200 ms."""
    if size < offload.OFF_LOOP_BYTES:
        return {}
    found = {version["name"]: CustomStrategy(spec, version) for version in spec["versions"]}

    def compile_all() -> None:
        for strategy in found.values():
            strategy.compile()

    await offload.run(size, compile_all)
    return found


def _converts_by_webhook(spec: Mapping[str, Any]) -> bool:
    conversion = spec.get("conversion") or {}
    return conversion.get("strategy") == "Webhook" and len(spec["versions"]) > 1


def _is_settled(crd: Mapping[str, Any]) -> bool:
    is_established = is_true(conditions_of(crd), names.ESTABLISHED)
    return is_established and not crd["metadata"].get("deletionTimestamp")


def _conflict(member: str, wanted: Mapping[str, Any], taken: tuple[set[str], set[str]]) -> str:
    """Return the conflicts of one of the wanted names; empty if there are none."""
    resources, kinds = taken
    held = kinds if member in ("kind", "listKind") else resources
    value = wanted.get(member)
    names = value if isinstance(value, list) else [value or ""]
    clashes = [n for n in names if n in held]
    return ", ".join(f'"{n}" is already in use' for n in clashes)
