# SPDX-License-Identifier: Apache-2.0
"""The objects of a write in the versions and forms for admission.

Webhooks and policies can require another version than that of the request, and subresources can
have their own kind: at `…/scale` they receive Scale objects although a whole custom resource is
written. `Versions` creates these views on demand and applies a modified view.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.resources import Resource

GroupVersionKind = tuple[str, str, str]

_SCALE = "io.k8s.api.autoscaling.v1.Scale"
_TOKEN_REQUEST = "io.k8s.api.authentication.v1.TokenRequest"
_SUBRESOURCE_KINDS: dict[str, tuple[GroupVersionKind, str]] = {
    "scale": (("autoscaling", "v1", "Scale"), _SCALE),
    "token": ((names.AUTHENTICATION_GROUP, "v1", "TokenRequest"), _TOKEN_REQUEST),
}
"""Subresources whose objects have their own kind, with its definition."""


def kind_of(resource: Resource, subresource: str) -> GroupVersionKind:
    """Return the kind of the objects at a (sub)resource."""
    own = _SUBRESOURCE_KINDS.get(subresource)
    return own[0] if own is not None else (resource.group, resource.version, resource.kind)


class Versions:
    """The new and the old object of one write, by version.

    All views are read-only; a mutating webhook passes its result to `replace`.
    """

    def __init__(self, attributes: AdmissionAttributes) -> None:
        self._attributes = attributes
        self._views: dict[Resource, tuple[Object | None, Object | None]] = {}

    async def of(self, target: Resource) -> tuple[Object | None, Object | None]:
        """Return the new and the old object in a version of the resource."""
        found = self._views.get(target)
        if found is None:
            attributes = self._attributes
            new = await self._view(attributes.object, target)
            old = await self._view(attributes.old_object, target)
            found = self._views[target] = new, old
        return found

    async def _view(self, obj: Object | None, target: Resource) -> Object | None:
        attributes = self._attributes
        if obj is None:
            return None
        if attributes.subresource == "scale":
            from rdd.apiserver.verbs import scale

            return scale.view(obj, _scale_paths(attributes.resource))
        if attributes.subresource in _SUBRESOURCE_KINDS:
            return obj
        return await self._convert(obj, attributes.resource, target)

    async def _convert(self, obj: Object, source: Resource, target: Resource) -> Object:
        """Convert an object to another version; the input is not modified."""
        if source is target:
            return obj
        converted: Object = orjson.loads(orjson.dumps(obj))
        if target.converter is not None:
            return await target.converter.convert(converted, target.api_version)
        if source.to_storage is not None:
            converted = source.to_storage(converted)
        if target.from_storage is not None:
            converted = target.from_storage(converted)
        converted["kind"], converted["apiVersion"] = target.kind, target.api_version
        return converted

    async def replace(self, target: Resource, patched: Object) -> bool:
        """Apply a modified view of the new object; return whether it differs.

        Raises InternalError if it is no longer an object of its kind.
        """
        attributes = self._attributes
        current = attributes.object
        assert current is not None
        before, _ = await self.of(target)
        after = self._decoded(target, patched)
        self._views.clear()
        if attributes.subresource == "scale":
            from rdd.apiserver.verbs import scale

            new = scale.with_replicas(current, _scale_paths(attributes.resource), after)
        elif attributes.subresource in _SUBRESOURCE_KINDS:
            new = after
        else:
            new = await self._convert(after, target, attributes.resource)
        is_changed = after != before
        # In place, because the write in progress holds a reference to this object.
        kept = dict(new)
        current.clear()
        current.update(kept)
        return is_changed

    def _decoded(self, target: Resource, patched: Object) -> Object:
        """Decode the result of a patch: types are checked, unknown members dropped."""
        own = _SUBRESOURCE_KINDS.get(self._attributes.subresource)
        try:
            if own is not None:
                from rdd.apiserver.kinds.catalog import decoder

                return decoder(own[1])(patched, [])
            target.decoder.check_type_meta(patched, orjson.dumps(patched))
            obj = target.decoder.decode(patched, [])
            target.strategy.normalise(obj)
        except errors.BadRequest as error:
            raise errors.InternalError.because(
                str(getattr(error, "cause", error.message))
            ) from None
        return obj


def _scale_paths(resource: Resource) -> Mapping[str, Any]:
    paths = resource.strategy.scale
    assert paths is not None
    return paths
