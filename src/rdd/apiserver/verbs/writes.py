# SPDX-License-Identifier: Apache-2.0
"""The common part of every write: metadata, admission, validation, commit.

Create, update, patch, apply and subresources all call `insert` or `replace`. The
order of steps is that of Kubernetes and is visible to clients (which error is
returned, what a webhook receives), so it is defined once:

    managed fields → mutating admission → system metadata → preparation by
    the kind → validation → validating admission → commit → response

Concurrency is optimistic. A write is built on the cached state and committed
only if the key still has that revision; after a conflict it is built again on
the new state, unless the client requires a resourceVersion, which is a
Conflict.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rdd.api import errors, jsonpath, managedfields, metadata
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.admission.chain import CREATE, UPDATE, AdmissionAttributes
from rdd.apiserver.auth import escalation, rbac
from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.components import Core
from rdd.apiserver.http.options import WriteOptions
from rdd.apiserver.http.request import Request
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.state import codec, quarantine
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.verbs import metadata_update
from rdd.store.contract import (
    ABSENT,
    CompareFailed,
    Delete,
    Op,
    Put,
    StoreUnreachable,
    Unavailable,
    ValueTooLarge,
)

MAX_ATTEMPTS = 50
_NAME_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write: the object as stored, or as a dry run would store it."""

    resource: Resource
    body: bytes
    """Without kind and apiVersion, with resourceVersion unless it is a dry run of a create."""
    created: bool = False


@dataclass(slots=True)
class Write:
    """One write in the pipeline."""

    core: Core
    request: Request
    resource: Resource
    options: WriteOptions
    options_kind: str
    manager: str
    namespace: str
    name: str
    subresource: str = ""
    is_apply: bool = False
    zero_is_absent: tuple[str, ...] = ()
    """The path of a number that no manager owns while it is 0."""

    def attributes(
        self, operation: str, obj: Object | None, old: Object | None
    ) -> AdmissionAttributes:
        """Return the write as admission receives it."""
        return AdmissionAttributes(
            operation,
            self.resource,
            self.request,
            namespace=self.namespace,
            name=self.name,
            object_=obj,
            old_object=old,
            options=self.options.to_object(self.options_kind),
            dry_run=self.options.dry_run,
            subresource=self.subresource,
        )


def new_uid() -> str:
    """Return a random uid (RFC 4122 version 4) in a third of the time of uuid.uuid4."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def check_namespace(resource: Resource, namespace: str, meta: dict[str, Any]) -> None:
    """Set the namespace of the path; raise BadRequest if the object has another one."""
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    given = meta.get("namespace")
    if given and given != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = namespace


def check_name(name: str, meta: dict[str, Any]) -> None:
    """Raise BadRequest unless the object has the name of the path."""
    given = meta.get("name")
    if not given:
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if given != name:
        raise errors.BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def work_size(write: Write, entry: CacheEntry | None = None) -> int:
    """Return how much a write works on: its body, the stored object, a large schema."""
    stored = len(entry.body) if entry is not None else 0
    return len(write.request.body) + stored + write.resource.strategy.work_bytes


# ---------------------------------------------------------------- new objects


async def insert(write: Write, obj: Object) -> Written:
    """Store a new object."""
    core, resource, strategy = write.core, write.resource, write.resource.strategy
    size = work_size(write)
    attributes, obj = await _mutate(write, CREATE, obj, None, size)
    meta = metadata_of(obj)
    version = meta.pop("resourceVersion", None)
    meta.pop("selfLink", None)
    meta["uid"] = new_uid()
    meta["creationTimestamp"] = core.now_text()
    generated = not meta.get("name") and bool(meta.get("generateName"))
    if generated:
        meta["name"] = metadata.generate_name(meta["generateName"])
    check_namespace(resource, write.namespace, meta)
    strategy.prepare_for_create(obj)
    if strategy.has_generation:
        meta["generation"] = 1
    else:
        meta.pop("generation", None)

    def validate() -> list[str]:
        errs = metadata.validate_object_meta(
            meta, namespaced=resource.namespaced, name_errors=strategy.name_errors
        )
        validation = strategy.validate(obj, found=errs)
        if strategy.validates_metadata:
            errs += validation.errors
        else:
            errs = validation.errors or errs
        if errs:
            raise invalid(resource, obj, errs)
        return validation.warnings

    write.request.warnings += await offload.check(size, validate, has_rules=strategy.has_rules)
    attributes.object = obj
    attributes.name = attributes.name or meta["name"]
    if write.request.info.verb != "create":
        _check_may_create(write)
    try:
        await core.admission.validate(attributes)
        if version and not write.is_apply and metadata_update.is_version(version):
            raise errors.ApiError(
                "resourceVersion should not be set on objects to be created", code=500, reason=""
            )
        return await _commit_new(write, obj, regenerate=generated)
    finally:
        if attributes.on_end is not None:
            attributes.on_end()


def _check_may_create(write: Write) -> None:
    """Raise Forbidden unless the user of an update or apply may create the object, too.

    As in Kubernetes, the check precedes validating admission, so errors of validation are
    returned first, and it has the name of the object: a rule with resourceNames can allow it.
    """
    authorizer, resource, user = write.core.rbac, write.resource, write.request.user
    if authorizer is None or user.is_master:
        return
    attributes = AuthorizationAttributes(
        user, "create",
        group=resource.group, version=resource.version, resource=resource.plural,
        namespace=write.namespace, name=write.name,
    )  # fmt: skip
    decision = authorizer.authorize(attributes)
    if not decision.allowed:
        raise rbac.forbidden_error(attributes, decision)


async def _commit_new(write: Write, obj: Object, *, regenerate: bool) -> Written:
    core, resource = write.core, write.resource
    meta = obj["metadata"]
    for attempt in range(MAX_ATTEMPTS):
        name = meta["name"]
        stored = await encode(resource, obj)
        existing = resource.cache.get(write.namespace, name)
        if existing is None:
            quarantine.check_free(resource, write.namespace, name)
            if write.options.dry_run:
                return Written(resource, stored, created=True)
            key = resource.cache.key(write.namespace, name)
            strategy = resource.strategy
            charges = write.request.charge() if write.request.charge is not None else []
            try:
                revision = await core.store.commit(
                    [
                        *_conditional(Put(key, stored, ABSENT, strategy.ttl_s), write.request),
                        *charges,
                    ],
                    durable=strategy.durable,
                )
                return Written(resource, codec.with_revision(stored, revision), created=True)
            except CompareFailed as failed:
                if any(failed.key == charge.key for charge in charges):
                    continue  # another create has been charged; the store has caught up
                _check_condition(failed, key)
                if failed.pending:
                    await core.store.settled(key)
                    continue
            except Unavailable as error:
                raise storage_failed(error) from error
        if regenerate and attempt + 1 < _NAME_ATTEMPTS:
            meta["name"] = metadata.generate_name(meta["generateName"])
            continue
        raise already_exists(resource, name, resource.cache.get(write.namespace, name))
    raise errors.InternalError.because("too many concurrent writes to one object")


def already_exists(resource: Resource, name: str, entry: CacheEntry | None) -> errors.AlreadyExists:
    """Return the error for a name that exists or is being deleted."""
    error = errors.AlreadyExists.of(resource.plural, resource.group, name)
    if entry is not None and entry.decode()["metadata"].get("deletionTimestamp"):
        error.message = f"object is being deleted: {error.message}"
    return error


# ------------------------------------------------------------ existing objects

Build = Callable[[CacheEntry | None, Object | None], Awaitable[Object]]
"""Builds the new object from the stored one; called again after a conflict."""


async def replace(write: Write, build: Build, *, may_create: bool = False) -> Written:
    """Store a changed object, or (if allowed) a new one."""
    resource = write.resource
    for _ in range(MAX_ATTEMPTS):
        entry = resource.cache.get(write.namespace, write.name)
        if entry is None:
            if not may_create:
                raise quarantine.missing(resource, write.namespace, write.name)
            quarantine.check_free(resource, write.namespace, write.name)
            obj = await build(None, None)
            if not write.is_apply:
                metadata_of(obj).pop("resourceVersion", None)
            return await insert(write, obj)
        (local,) = await resource.convert_entries([entry])
        old = await offload.run(len(local.body), resource.object, local)
        obj = await build(entry, old)
        pinned = metadata_of(obj).get("resourceVersion")
        written = await _replace_once(write, entry, old, obj)
        if written is not None:
            return written
        if pinned and not write.request.method == "PATCH":
            raise errors.Conflict.of(resource.plural, resource.group, write.name)
    raise errors.Conflict.of(resource.plural, resource.group, write.name)


async def _replace_once(
    write: Write, entry: CacheEntry, old: Object, obj: Object
) -> Written | None:
    """Try a write on the state of `entry`; return None if the state has changed."""
    core, resource, strategy = write.core, write.resource, write.resource.strategy
    size = work_size(write, entry)
    attributes, obj = await _mutate(write, UPDATE, obj, old, size)
    meta, old_meta = metadata_of(obj), old["metadata"]
    # As in Kubernetes, webhooks are called before the version is compared.
    metadata_update.check_version(resource, write.name, meta.get("resourceVersion"), entry)
    metadata_update.keep_system_metadata(meta, old_meta, entry)
    check_namespace(resource, write.namespace, meta)
    strategy.prepare_for_update(obj, old, subresource=write.subresource)
    meta = metadata_of(obj)
    metadata_update.count_generation(resource, obj, old)

    def validate() -> list[str]:
        errs = metadata_update.find_errors(resource, meta, old_meta)
        validation = strategy.validate_update(obj, old, subresource=write.subresource, found=errs)
        errs += validation.errors
        if errs:
            raise invalid(resource, obj, errs)
        return validation.warnings

    write.request.warnings += await offload.check(size, validate, has_rules=strategy.has_rules)
    attributes.object = obj
    await core.admission.validate(attributes)
    return await _commit_replacement(write, entry, obj)


async def _commit_replacement(write: Write, entry: CacheEntry, obj: Object) -> Written | None:
    core, resource = write.core, write.resource
    meta = obj["metadata"]
    stored = await encode(resource, obj)
    before = codec.without_revision(entry.body)
    if codec.is_same(stored, before):
        return Written(resource, entry.body)
    key = resource.cache.key(write.namespace, write.name)
    gone = bool(meta.get("deletionTimestamp")) and not resource.strategy.is_held(obj)
    if write.options.dry_run:
        return Written(resource, codec.with_revision(stored, entry.revision))
    strategy = resource.strategy
    op = (
        Delete(key, entry.revision)
        if gone
        else Put(key, stored, entry.revision, strategy.ttl_s, before)
    )
    revision = await commit(core, op, write.request, durable=strategy.durable)
    if revision is None:
        return None
    return Written(resource, codec.with_revision(stored, entry.revision if gone else revision))


def _conditional(op: Put | Delete, request: Request) -> list[Op]:
    """Return the operation with the precondition of the request."""
    condition = request.condition
    return [op] if condition is None or condition.key == op.key else [op, condition]


def _check_condition(failed: CompareFailed, key: str) -> None:
    """Raise Conflict if the precondition of the request failed."""
    if failed.key != key:
        raise errors.Conflict("the precondition of the write has changed; please try again")


async def commit(
    core: Core, op: Put | Delete, request: Request, *, durable: bool = True
) -> int | None:
    """Commit a change of an existing object; return the revision, or None if it has changed.

    If a write that is not durable yet caused the conflict, wait until it is durable.
    """
    if core.cache.damaged and isinstance(op, Delete):
        quarantine.check_removable(core.cache.damaged, op.key)
    try:
        return await core.store.commit(_conditional(op, request), durable=durable)
    except CompareFailed as failed:
        _check_condition(failed, op.key)
        if failed.pending:
            await core.store.settled(op.key)
        return None
    except Unavailable as error:
        raise storage_failed(error) from error


# ------------------------------------------------------------------- shared


async def _mutate(
    write: Write, operation: str, obj: Object, old: Object | None, size: int
) -> tuple[AdmissionAttributes, Object]:
    """Record field owners and run mutating admission; return the object it results in."""
    resource, warnings = write.resource, write.request.warnings
    now = write.core.now_text()  # here: a clock may need the event loop

    def complete() -> list[str]:
        resource.strategy.normalise(obj)
        repeated = metadata.deduplicate_owner_references(metadata_of(obj))
        _record_owner(write, obj, old, now)
        return repeated

    warnings += await offload.run(size, complete)
    attributes = write.attributes(operation, obj, old)
    if await write.core.admission.mutate(attributes):
        assert attributes.object is not None
        resource.decoder.check_kind(attributes.object)
        obj = resource.decoder.decode(attributes.object, [])
        resource.strategy.normalise(obj)
        warnings += metadata.deduplicate_owner_references(metadata_of(obj), after_admission=True)
    await _check_escalation(write, obj, old)
    return attributes, obj


def _record_owner(write: Write, obj: Object, old: Object | None, now: str) -> None:
    """Record the field owners; an apply has recorded them already."""
    if write.is_apply:
        return
    resource = write.resource
    live, new = old, obj
    if write.zero_is_absent:
        live = old and _without_zero(old, write.zero_is_absent)
        new = _without_zero(obj, write.zero_is_absent)
    managedfields.update(
        live=live,
        new=new,
        node=resource.node,
        manager=write.manager,
        api_version=resource.api_version,
        subresource=write.subresource,
        now=now,
        reset=reset_fields(resource, write.subresource),
        empty=resource.empty,
    )
    if new is not obj:
        obj["metadata"] = new["metadata"]


def _without_zero(obj: Object, path: tuple[str, ...]) -> Object:
    """Return the object without the number at a path if it is 0."""
    if jsonpath.lookup(obj, path) != 0:
        return obj
    new = here = dict(obj)
    for name in path[:-1]:
        here[name] = here = dict(here[name])
    del here[path[-1]]
    return new


async def _check_escalation(write: Write, obj: Object, old: Object | None) -> None:
    authorizer = write.core.rbac
    if authorizer is None or write.request.user.is_master:
        return
    comparison = escalation.check_escalation(
        authorizer, write.request.user, info=write.request.info, obj=obj, old=old
    )
    if comparison is not None:
        await offload.run(comparison.size, comparison.check)


_STATUS = frozenset({"status"})
_NOTHING: frozenset[str] = frozenset()


def reset_fields(resource: Resource, subresource: str) -> frozenset[str]:
    """Return the top-level members that a write to this (sub)resource cannot change nor own."""
    if not resource.strategy.has_status:
        return _NOTHING
    if subresource == "status":
        kept = {"apiVersion", "kind", "status"}
        if not resource.strategy.keeps_metadata_for_status:
            kept.add("metadata")
        return frozenset({"metadata"} | resource.node.properties.keys()) - kept
    return _STATUS


async def encode(resource: Resource, obj: Object) -> bytes:
    """Return the stored form; raise RequestEntityTooLarge above the limit."""
    stored = await resource.store_form(obj) if resource.converter else resource.encode(obj)
    if len(stored) > codec.MAX_OBJECT_BYTES:
        raise codec.too_large()
    return stored


def invalid(resource: Resource, obj: Object, errs: list[FieldError]) -> errors.Invalid:
    """Return the error for an object that fails validation."""
    meta = metadata_of(obj)
    name = str(meta.get("name") or meta.get("generateName") or "")
    kind = obj.get("kind") or resource.kind
    group = resource.strategy.error_group
    if group is None:
        # A patched custom resource can have another group.
        group = str(obj.get("apiVersion") or resource.api_version).rpartition("/")[0]
    return errors.Invalid.of(str(kind), group, name, errs)


def storage_failed(error: Unavailable) -> errors.ApiError:
    """Return the error for a failed commit; a retry may succeed."""
    if isinstance(error, ValueTooLarge):
        return codec.too_large()
    if isinstance(error, StoreUnreachable):
        return errors.ServiceUnavailable(str(error), retry_after_s=1)
    return errors.InternalError.because(str(error))
