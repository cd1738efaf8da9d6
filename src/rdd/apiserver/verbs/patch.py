# SPDX-License-Identifier: Apache-2.0
"""PATCH: change an object by JSON patch, merge patch, strategic merge patch or apply.

The first three compute a new object from the stored one and then are an
update; after a conflict they are computed again on the new state, because a
patch describes the change and not the result. Apply (server-side apply) merges
by field ownership and creates the object if it does not exist.
"""

from typing import Any

from rdd.api import apply as ssa
from rdd.api import decode, errors, jsonpatch, managedfields, mergepatch, strategic
from rdd.api.mediatypes import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from rdd.api.types import Object
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, negotiation, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.kinds.decoding import invalid_patch
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.state.cache import CacheEntry
from rdd.apiserver.verbs import writes
from rdd.base import gotext


async def patch(
    core: Core, request: Request, resource: Resource, *, subresource: str = ""
) -> AnyResponse:
    """Patch the object of the path."""
    info = request.info
    media = check_patch_type(request, resource)
    negotiated = negotiation.negotiate(request)
    is_apply = media == APPLY_PATCH
    opts = options.write_options(request, "PatchOptions", is_apply=is_apply)
    write = writes.Write(
        core,
        request,
        resource,
        opts,
        "PatchOptions",
        opts.field_manager
        if is_apply
        else managedfields.manager_from(opts.field_manager, request.headers.get("User-Agent", "")),
        info.namespace if resource.namespaced else "",
        info.name,
        subresource=subresource,
        is_apply=is_apply,
    )
    if is_apply:
        builder: _Patch | _Apply = _Apply(write)
    else:
        builder = _Patch(write, media)
    written = await writes.replace(write, builder.build, may_create=is_apply and not subresource)
    return await responses.written(core, request, written, negotiated)


def check_patch_type(request: Request, resource: Resource) -> str:
    """Return the media type of a patch; raise UnsupportedMediaType for any other type."""
    media = bodies.exact_media_type(request)
    if media not in resource.patch_types:
        raise resource.unsupported_patch(media)
    return media


class _Patch:
    """JSON, merge or strategic merge patch."""

    def __init__(self, write: writes.Write, media: str) -> None:
        self.write = write
        self.media = media
        try:
            self.patch: Any = decode.decode_json(write.request.body)
        except errors.BadRequest as error:
            is_strategic = media not in (JSON_PATCH, MERGE_PATCH)
            prefix = "" if is_strategic else "error decoding patch: "
            raise errors.BadRequest(prefix + error.message) from None

    async def build(self, entry: CacheEntry | None, old: Object | None) -> Object:
        """Return the stored object with the patch applied."""
        assert entry is not None and old is not None
        write, resource = self.write, self.write.resource
        if self.media == JSON_PATCH:
            new = jsonpatch.apply_json_patch(old, self.patch)
        elif self.media == MERGE_PATCH:
            new = mergepatch.apply_merge_patch(old, self.patch)
        else:
            new = strategic.apply_strategic_patch(old, self.patch, resource.node)
        if not isinstance(new, dict):
            raise invalid_patch(new, bodies.not_an_object(new))
        obj = self._decode_patched(write, new)
        meta = metadata_of(obj)
        writes.check_name(write.name, meta)
        writes.check_namespace(resource, write.namespace, meta)
        return obj

    def _decode_patched(self, write: writes.Write, new: Object) -> Object:
        resource = write.resource
        meta = new.get("metadata")
        sent = meta.get("managedFields") if isinstance(meta, dict) else None
        unknown: list[str] = []
        obj = resource.decoder.decode_patched(new, unknown)
        if resource.decoder.can_clear_managers:
            bodies.keep_cleared(sent, obj)
        if write.options.field_validation == "Ignore":
            return obj
        problems = bodies.duplicates(write.request.body, self.patch)
        if self.media == JSON_PATCH:
            problems = [f"json patch {p}" for p in problems]
        problems += [f"unknown field {gotext.quote(p)}" for p in unknown]
        if problems:
            if write.options.field_validation == "Strict":
                raise invalid_patch(new, f"strict decoding error: {', '.join(problems)}")
            write.request.warnings += problems
        return obj


class _Apply:
    """Server-side apply."""

    def __init__(self, write: writes.Write) -> None:
        self.write = write
        try:
            document = bodies.read_yaml(write.request)
        except errors.BadRequest as error:
            raise errors.BadRequest(f"error decoding YAML: {error.message}") from None
        self.patch: Any = document.value
        self._duplicates = list(document.duplicates)

    def _report(self, problems: list[str]) -> None:
        mode = self.write.options.field_validation
        if problems and mode == "Strict":
            lines = "".join(f"\n  {p}" for p in problems)
            raise errors.BadRequest(
                "error strict decoding YAML: error converting YAML to JSON: yaml: "
                f"unmarshal errors:{lines}"
            )
        if mode != "Ignore":
            self.write.request.warnings += problems

    async def build(self, entry: CacheEntry | None, old: Object | None) -> Object:
        """Return the stored object merged with the applied one."""
        write, resource = self.write, self.write.resource
        new = ssa.apply(
            live=old,
            patch=self.patch,
            node=resource.node,
            manager=write.manager,
            api_version=resource.api_version,
            subresource=write.subresource,
            force=write.options.force,
            now=write.core.now_text(),
            reset=writes.reset_fields(resource, write.subresource),
            empty=resource.empty,
            kind=resource.kind,
        )
        # Conflicts and values that do not fit the schema are reported before duplicate keys.
        self._report(self._duplicates)
        obj = resource.decoder.decode_applied(new, self.patch)
        obj_meta = metadata_of(obj)
        writes.check_name(write.name, obj_meta)
        writes.check_namespace(resource, write.namespace, obj_meta)
        if entry is None:
            uid = (self.patch.get("metadata") or {}).get("uid")
            if uid:
                raise errors.Conflict.of(
                    resource.plural,
                    resource.group,
                    write.name,
                    f"uid mismatch: the provided object specified uid {uid}, and no existing "
                    "object was found",
                )
        return obj
