# SPDX-License-Identifier: Apache-2.0
"""The scale subresource of custom resources: an autoscaling/v1 Scale built from three paths.

A Scale is a view: a read takes the replicas from the object by the paths of the
CRD, a write sets `spec.replicas` and changes nothing else.
"""

from collections.abc import Mapping
from typing import Any

from rdd.api import decode, errors, jsonpatch, jsonpath, managedfields, mergepatch
from rdd.api.mediatypes import APPLY_PATCH, JSON_PATCH
from rdd.api.types import Object
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.kinds import decoding
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.state import codec
from rdd.apiserver.state.cache import CacheEntry
from rdd.apiserver.verbs import writes
from rdd.base import gotext
from rdd.schema.builtin import typed

_SCALE = "io.k8s.api.autoscaling.v1.Scale"
_API_VERSION = "autoscaling/v1"


async def handle(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """Handle GET, PUT and PATCH of …/scale."""
    paths = resource.strategy.scale
    assert paths is not None
    verb = request.info.verb
    if verb == "get" and request.method == "GET":
        entry = resource.cache.get(_namespace(request, resource), request.info.name)
        if entry is None:
            raise errors.NotFound.of(resource.plural, resource.group, request.info.name)
        return responses.value(request, view(resource.object(entry), paths))
    if verb not in ("update", "patch"):
        raise resource.unsupported_verb(verb)
    return await _write(core, request, resource, paths)


def _namespace(request: Request, resource: Resource) -> str:
    return request.info.namespace if resource.namespaced else ""


def view(obj: Object, paths: Mapping[str, Any]) -> Object:
    """Return the Scale of an object."""
    spec_path, status_path = paths["specReplicasPath"], paths["statusReplicasPath"]
    replicas = _number(obj, spec_path)
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

    async def build(entry: CacheEntry | None, old: Object | None) -> Object:
        assert old is not None
        if is_apply:
            _check_applied(bodies.read_yaml(request).value, old, paths)
            return old
        if is_patch:
            sent = decode.decode_json(request.body)
            current = view(old, paths)
            new = (
                jsonpatch.apply_json_patch(current, sent)
                if media == JSON_PATCH
                else mergepatch.apply_merge_patch(current, sent)
            )
        else:
            new, _ = bodies.parse(request)
        try:
            scale = _decode(new)
        except errors.BadRequest as error:
            if not is_patch:
                raise
            text = error.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
            raise decoding.invalid_patch(new, text or error.message) from None
        meta = metadata_of(scale)
        writes.check_name(write.name, meta)
        obj = {**old, "metadata": dict(old["metadata"])}
        if meta.get("resourceVersion"):
            obj["metadata"]["resourceVersion"] = meta["resourceVersion"]
        return with_replicas(obj, paths, scale)

    written = await writes.replace(write, build)
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, **codec.decode(written.body)}
    return responses.value(request, view(obj, paths))


def _decode(new: Any) -> Object:
    """Return a Scale with typed members."""
    if not isinstance(new, dict):
        raise errors.BadRequest(bodies.not_an_object(new))
    if new.get("kind", "Scale") != "Scale":
        raise errors.BadRequest(
            decoding.not_registered(str(new.get("kind")), str(new.get("apiVersion")))
        )
    return typed.decode_typed(typed.shape(_SCALE), new, unknown=[])


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
