# SPDX-License-Identifier: Apache-2.0
"""DELETE: remove an object or a collection.

An object without finalizers is removed at once, and the response is a Status.
An object with finalizers (its own, or the system's for orphaning and foreground
deletion) is marked with a deletionTimestamp and stays until they are removed;
the response is the object.
"""

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.admission.chain import DELETE, AdmissionAttributes
from rdd.apiserver.components import Core
from rdd.apiserver.http import negotiation, options, responses
from rdd.apiserver.http.options import DeleteOptions
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import codec, listing, quarantine
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.verbs import writes
from rdd.store.contract import Delete, Put


async def delete(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """Delete the object of the path."""
    info = request.info
    negotiated = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
    opts = options.delete_options(request)
    namespace = info.namespace if resource.namespaced else ""
    last, is_removed = await remove(core, request, resource, namespace, info.name, opts)
    if not is_removed or resource.strategy.returns_deleted:
        (last,) = await resource.convert_entries([last])
        # As in Kubernetes, only this deprecated option makes a pending deletion Accepted.
        code = 202 if not is_removed and opts.orphan_dependents is False else 200
        return await responses.entry(core, request, resource, last, negotiated, status=code)
    details = errors.object_details(resource.plural, resource.group, info.name)
    details["uid"] = last.decode()["metadata"]["uid"]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
    return responses.value(request, status, media=negotiated.media)


async def remove(
    core: Core,
    request: Request,
    resource: Resource,
    namespace: str,
    name: str,
    opts: DeleteOptions,
) -> tuple[CacheEntry, bool]:
    """Delete one object; return its last state and whether it is removed or only marked."""
    for _ in range(writes.MAX_ATTEMPTS):
        entry = resource.cache.get(namespace, name)
        if entry is None:
            raise quarantine.missing(resource, namespace, name)
        (local,) = await resource.convert_entries([entry])
        old = await offload.run(len(local.body), resource.object, local)
        _check_preconditions(resource, entry, old, opts)
        attributes = AdmissionAttributes(
            DELETE,
            resource,
            request,
            namespace=namespace,
            name=name,
            object_=None,
            old_object=old,
            options=opts.to_object(),
            dry_run=opts.dry_run,
        )
        await core.admission.mutate(attributes)
        await core.admission.validate(attributes)
        outcome = await _remove_once(core, request, resource, entry, old, opts)
        if outcome is not None:
            return outcome
    raise errors.Conflict.of(resource.plural, resource.group, name)


def _check_preconditions(
    resource: Resource, entry: CacheEntry, old: Object, opts: DeleteOptions
) -> None:
    uid, version = old["metadata"]["uid"], str(entry.revision)
    in_two_steps = resource.strategy.deletes_in_two_steps
    if opts.uid is not None and opts.uid != uid:
        why = (
            f"Precondition failed: UID in precondition: {opts.uid}, UID in object meta: {uid}"
            if in_two_steps
            else f"the UID in the precondition ({opts.uid}) does not match the UID in record "
            f"({uid}). The object might have been deleted and then recreated"
        )
    elif opts.resource_version is not None and opts.resource_version != version:
        why = (
            "Precondition failed: ResourceVersion in precondition: "
            f"{opts.resource_version}, ResourceVersion in object meta: {version}"
            if in_two_steps
            else f"the ResourceVersion in the precondition ({opts.resource_version}) does not "
            f"match the ResourceVersion in record ({version}). The object might have been modified"
        )
    else:
        return
    # Kubernetes names the kind here instead of the resource, except for namespaces and CRDs.
    what = resource.plural if in_two_steps else resource.kind
    group = resource.strategy.error_group
    raise errors.Conflict.of(what, resource.group if group is None else group, entry.name, why)


async def _remove_once(
    core: Core,
    request: Request,
    resource: Resource,
    entry: CacheEntry,
    old: Object,
    opts: DeleteOptions,
) -> tuple[CacheEntry, bool] | None:
    meta = dict(old["metadata"])
    finalizers = _finalizers(resource, meta.get("finalizers") or [], opts)
    obj = {**old, "metadata": meta}
    stays = bool(finalizers)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if resource.strategy.deletes_in_two_steps:
        stays = resource.strategy.begin_deletion(obj, now=core.now_text()) or stays
    key = resource.cache.key(entry.namespace, entry.name)
    if not stays:
        if opts.dry_run:
            return entry, True
        before = codec.without_revision(entry.body)
        revision: int | None = await writes.commit(
            core, Delete(key, entry.revision, before), request
        )
        if revision is None:
            return None
        last = codec.with_revision(before, revision)
        return CacheEntry(entry.namespace, entry.name, revision, last), True
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = core.now_text()
        if not resource.strategy.deletes_in_two_steps:
            meta["deletionGracePeriodSeconds"] = 0
        if meta.get("generation"):
            meta["generation"] += 1
    stored = await writes.encode(resource, obj)
    if codec.is_same(stored, codec.without_revision(entry.body)):
        return entry, False
    revision = entry.revision
    if not opts.dry_run:
        revision = await writes.commit(core, Put(key, stored, entry.revision), request)
        if revision is None:
            return None
    marked = codec.with_revision(stored, revision)
    return CacheEntry(entry.namespace, entry.name, revision, marked), False


def _finalizers(resource: Resource, existing: list[str], opts: DeleteOptions) -> list[str]:
    """Return the finalizers of an object being deleted: its own plus that of the policy.

    The order stays if nothing is added or removed. Kinds without dependents lose the
    finalizers of garbage collection.
    """
    policy = opts.propagation_policy
    if not resource.strategy.has_dependents:
        policy = "Background"
    elif opts.orphan_dependents is not None:
        # Namespaces and CRDs take "do not orphan" for foreground deletion.
        cascading = "Foreground" if resource.strategy.deletes_in_two_steps else "Background"
        policy = "Orphan" if opts.orphan_dependents else cascading
    elif policy is None:
        return existing
    kept = [f for f in existing if f not in (names.ORPHAN_FINALIZER, names.FOREGROUND_FINALIZER)]
    if policy == "Orphan":
        kept.append(names.ORPHAN_FINALIZER)
    elif policy == "Foreground":
        kept.append(names.FOREGROUND_FINALIZER)
    return existing if set(kept) == set(existing) else kept


async def delete_collection(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """Delete every object of a selection; respond with their last states."""
    info = request.info
    if resource.namespaced and not info.namespace:
        raise errors.MethodNotAllowed()
    negotiated = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
    list_opts = options.list_options(request, is_watch=False)
    opts = options.delete_options(request)
    page = await listing.select(core, request, resource, list_opts)
    quarantine.warn(request, resource, info.namespace)
    for entry in page.entries:
        try:
            await remove(core, request, resource, entry.namespace, entry.name, opts)
        except errors.NotFound:
            continue  # deleted concurrently
    return await responses.page(core, request, resource, page, negotiated)
