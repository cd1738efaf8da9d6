# SPDX-License-Identifier: Apache-2.0
"""The scale subresource of custom resources: an autoscaling/v1 Scale built from three paths.

A Scale is a view: a read takes the replicas from the object by the paths of the
CRD, a write sets `spec.replicas` and changes nothing else.
"""

from collections.abc import Mapping
from typing import Any

from rdd.api import apply, errors, jsonpath, managedfields
from rdd.api.mediatypes import APPLY_PATCH
from rdd.api.types import Object
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.kinds import decoding
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.state import codec, quarantine
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.verbs import metadata_update, writes
from rdd.apiserver.verbs.patch import ObjectPatch, read_configuration
from rdd.base import gotext

_API_VERSION = "autoscaling/v1"
_DECODER = decoding.TypedDecoder("Scale", _API_VERSION, "io.k8s.api.autoscaling.v1.Scale")
_SCHEME = "pkg/apiserver/apiserver.go:58"
_UNSET = -(2**31)
"""Stands for absent replicas while a Scale is patched, as in Kubernetes."""


async def handle(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """Handle GET, PUT and PATCH of …/scale."""
    paths = resource.strategy.scale
    assert paths is not None
    verb = request.info.verb
    if verb == "get" and request.method == "GET":
        entry = resource.cache.get(_namespace(request, resource), request.info.name)
        if entry is None:
            raise quarantine.missing(resource, _namespace(request, resource), request.info.name)
        return responses.value(request, view(resource.object(entry), paths))
    if verb not in ("update", "patch"):
        raise resource.unsupported_verb(verb)
    return await _write(core, request, resource, paths)


def _namespace(request: Request, resource: Resource) -> str:
    return request.info.namespace if resource.namespaced else ""


def view(obj: Object, paths: Mapping[str, Any], *, unset: int | None = None) -> Object:
    """Return the Scale of an object; raise InternalError without replicas and `unset`."""
    spec_path, status_path = paths["specReplicasPath"], paths["statusReplicasPath"]
    replicas = _number(obj, spec_path)
    if replicas is None:
        replicas = unset
    if replicas is None:
        raise errors.InternalError.because(
            f"the spec replicas field {gotext.quote(spec_path)} does not exist"
        )
    status: Object = {"replicas": _number(obj, status_path) or 0}
    selector_path = paths.get("labelSelectorPath")
    if selector_path:
        selector = jsonpath.lookup(obj, jsonpath.parse_simple(selector_path))
        if selector:
            status["selector"] = selector
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": _API_VERSION,
        "metadata": {k: meta[k] for k in kept if k in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _number(obj: Object, path: str) -> int | None:
    value = jsonpath.lookup(obj, jsonpath.parse_simple(path))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


async def _write(
    core: Core, request: Request, resource: Resource, paths: Mapping[str, Any]
) -> AnyResponse:
    is_patch = request.info.verb == "patch"
    kind = "PatchOptions" if is_patch else "UpdateOptions"
    media = bodies.media_type(request)
    if is_patch and media not in resource.patch_types:
        raise resource.unsupported_patch(media)
    is_apply = is_patch and media == APPLY_PATCH
    opts = options.write_options(request, kind, is_apply=is_apply)
    write = writes.Write(
        core,
        request,
        resource,
        opts,
        kind,
        managedfields.manager_from(opts.field_manager, request.headers.get("User-Agent", "")),
        _namespace(request, resource),
        request.info.name,
        subresource="scale",
        zero_is_absent=jsonpath.parse_simple(paths["specReplicasPath"]),
    )

    applied = _read_applied(request) if is_apply else None
    patcher = ObjectPatch(write, media, _DECODER) if is_patch and not is_apply else None
    sent = None if is_patch else _read(write)

    async def build(entry: CacheEntry | None, old: Object | None) -> Object:
        assert old is not None
        if is_apply:
            _check_applied(applied, old, paths)
            return old
        scale = sent
        if patcher is not None:
            scale = patcher.patched(view(old, paths, unset=_UNSET))
            if (scale.get("spec") or {}).get("replicas") == _UNSET:
                path = gotext.quote(paths["specReplicasPath"])
                raise errors.BadRequest(f"the spec replicas field {path} cannot be empty")
            _check_place(write, scale)
        assert scale is not None
        meta, old_meta = metadata_of(scale), old["metadata"]
        if sent is not None:
            place = resource, write.namespace, write.name
            metadata_update.check_uid(*place, meta.get("uid"), old_meta["uid"])
        obj = {**old, "metadata": dict(old_meta)}
        version = meta.get("resourceVersion")
        if version:
            metadata_update.parse_version(version)
            obj["metadata"]["resourceVersion"] = version
        return with_replicas(obj, paths, scale)

    written = await writes.replace(write, build)
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, **codec.decode(written.body)}
    return responses.value(request, view(obj, paths))


def _read(write: writes.Write) -> Object:
    """Return the Scale of a PUT.

    Kubernetes has one text for all that is wrong with it: the scheme of custom resources, by
    which it describes decoding errors, does not have the kind.
    """
    try:
        mode = write.options.field_validation
        scale = bodies.decode_as(write.request, _DECODER, field_validation=mode)
    except errors.UnsupportedMediaType:
        raise
    except errors.BadRequest:
        raise errors.BadRequest(
            f"no kind is registered for the type v1.Scale in scheme {gotext.quote(_SCHEME)}"
        ) from None
    _check_place(write, scale)
    return scale


def _check_place(write: writes.Write, scale: Object) -> None:
    meta = metadata_of(scale)
    writes.check_namespace(write.resource, write.namespace, meta)
    writes.check_name(write.name, meta)


def _read_applied(request: Request) -> Object:
    return apply.configuration(read_configuration(request).value)


def _check_applied(patch: Any, old: Object, paths: Mapping[str, Any]) -> None:
    """Raise the error of an applied Scale that would change the object.

    Kubernetes merges the Scale but cannot convert the result, because the converter of the
    custom resource handles its own group only.
    """
    if not isinstance(patch, dict) or (patch.get("apiVersion"), patch.get("kind")) != (
        _API_VERSION,
        "Scale",
    ):
        given = patch if isinstance(patch, dict) else {}
        group_version = given.get("apiVersion") or "/"
        raise errors.BadRequest(
            f"invalid object type: {group_version}, Kind={given.get('kind') or ''}"
        )
    reason = (
        f"({{}}; {_API_VERSION}, Kind=Scale) to proper version: request to convert CR to an "
        f"invalid group/version: {_API_VERSION}"
    )
    if not _has_owner(old, jsonpath.parse_simple(paths["specReplicasPath"])):
        text = "failed to create manager for existing fields: failed to convert live object "
        raise errors.ApiError(text + reason.format("/"), code=500, reason="")
    meta = patch.get("metadata") or {}
    replicas = (patch.get("spec") or {}).get("replicas")
    live = _number(old, paths["specReplicasPath"])
    version = meta.get("resourceVersion")
    if replicas in (None, live) and version in (None, old["metadata"]["resourceVersion"]):
        return
    place = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
    text = "failed to convert new object "
    raise errors.ApiError(text + reason.format(place), code=500, reason="")


def _has_owner(obj: Object, path: tuple[str, ...]) -> bool:
    """Return whether a manager owns the field at a path."""
    members = tuple(f"f:{name}" for name in path)
    return any(
        jsonpath.lookup(entry.get("fieldsV1"), members) is not None
        for entry in obj["metadata"].get("managedFields") or ()
    )


def with_replicas(obj: Object, paths: Mapping[str, Any], scale: Object) -> Object:
    """Return the object with the replicas of a Scale; only the objects on the path are copied."""
    new = here = dict(obj)
    *parents, last = jsonpath.parse_simple(paths["specReplicasPath"])
    for name in parents:
        below = here.get(name)
        here[name] = dict(below) if isinstance(below, dict) else {}
        here = here[name]
    here[last] = (scale.get("spec") or {}).get("replicas", 0)
    return new
