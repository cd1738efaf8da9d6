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
from rdd.api.yamlcodec import YamlDocument
from rdd.apiserver import offload
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, negotiation, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.kinds.decoding import BodyDecoder, invalid_patch
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.verbs import writes
from rdd.base import goformat, gotext


async def patch(
    core: Core, request: Request, resource: Resource, *, subresource: str = ""
) -> AnyResponse:
    """Patch the object of the path."""
    info = request.info
    media = check_patch_type(request, resource)
    negotiated = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
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
        builder: ObjectPatch | _Apply = _Apply(write)
    else:
        builder = ObjectPatch(write, media)
    written = await writes.replace(write, builder.build, may_create=is_apply and not subresource)
    return await responses.written(core, request, written, negotiated)


def check_patch_type(request: Request, resource: Resource) -> str:
    """Return the media type of a patch; raise UnsupportedMediaType for any other type."""
    media = bodies.exact_media_type(request)
    if media not in resource.patch_types:
        raise resource.unsupported_patch(media)
    return media


class ObjectPatch:
    """JSON, merge or strategic merge patch.

    `decoder` decodes the result; None: that of the resource.
    """

    def __init__(self, write: writes.Write, media: str, decoder: BodyDecoder | None = None) -> None:
        self.write = write
        self.media = media
        self._decoder = decoder or write.resource.decoder
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
        size = writes.work_size(write, entry)
        obj = await offload.run(size, self.patched, old)
        meta = metadata_of(obj)
        writes.check_name(write.name, meta)
        writes.check_namespace(resource, write.namespace, meta)
        return obj

    def patched(self, old: Object) -> Object:
        """Return the object with the patch applied, decoded."""
        new = self._apply(old, self.patch)
        if not isinstance(new, dict):
            raise invalid_patch(new, bodies.not_an_object(new))
        if new is old:
            # A patch without an operation; decoding changes its argument.
            new = {**old, "metadata": {**old["metadata"]}}
        return self._decode_patched(new, old)

    def _apply(self, old: Object, patch: Any) -> Any:
        strict = self.write.options.field_validation != "Ignore"
        if self.media == JSON_PATCH:
            return jsonpatch.apply_json_patch(old, patch, strict=strict)
        if self.media == MERGE_PATCH:
            return mergepatch.apply_merge_patch(old, patch, strict=strict)
        return strategic.apply_strategic_patch(old, patch, self.write.resource.node)

    def _decode_patched(self, new: Object, old: Object) -> Object:
        write, decoder = self.write, self._decoder
        meta = new.get("metadata")
        sent = meta.get("managedFields") if isinstance(meta, dict) else None
        unknown: list[str] = []
        text: str | None = None
        if self.media in (JSON_PATCH, MERGE_PATCH):
            obj = decoder.decode_patched(new, unknown, lambda: self._document(new, old))
        else:
            text = goformat.plain(self.patch)
            obj = decoder.decode_merged(new, self.patch, unknown)
        if decoder.can_clear_managers:
            bodies.keep_cleared(sent, obj)
        if write.options.field_validation == "Ignore":
            return obj
        problems = self._problems(unknown)
        if problems:
            if write.options.field_validation == "Strict":
                detail = f"strict decoding error: {', '.join(problems)}"
                raise invalid_patch(new, detail, text=text)
            write.request.warnings += problems
        return obj

    def _problems(self, unknown: list[str]) -> list[str]:
        """Return the strict errors of the patch itself, then those of the patched object."""
        body = self.write.request.body
        if self.media == JSON_PATCH:
            problems = jsonpatch.strict_errors(self.patch, body)
        else:
            problems = bodies.duplicates(body, self.patch)
        # The converter of strategic merge patches does not escape names.
        is_strategic = self.media not in (JSON_PATCH, MERGE_PATCH)
        names = [f'"{path}"' if is_strategic else gotext.quote(path) for path in unknown]
        return problems + [f"unknown field {name}" for name in names]

    def _document(self, new: Object, old: Object) -> Any:
        """Return the patched object as Kubernetes prints it.

        Members are sorted, except in values that a JSON patch inserts as a whole; numbers of the
        patch stay as they are written.
        """
        written = decode.written_value(self.write.request.body)
        try:
            new = self._apply(old, written)
        except errors.ApiError:
            written = None  # a `test` compares numbers by their value
        inserted = []
        if self.media == JSON_PATCH and isinstance(written, list):
            inserted = [id(op.get("value")) for op in written if isinstance(op, dict)]
        return bodies.sorted_members(new, frozenset(inserted))


def read_configuration(request: Request) -> YamlDocument:
    """Return the document of an apply."""
    try:
        return bodies.read_yaml(request)
    except errors.BadRequest as error:
        reason = f"error converting YAML to JSON: {error.message}"
        raise errors.BadRequest(f"error decoding YAML: {reason}") from None


class _Apply:
    """Server-side apply."""

    def __init__(self, write: writes.Write) -> None:
        self.write = write
        document = read_configuration(write.request)
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
        size = writes.work_size(write, entry)
        new = await offload.run(
            size,
            ssa.apply,
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
        obj = await offload.run(size, resource.decoder.decode_applied, new, self.patch)
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
