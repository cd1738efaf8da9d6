# SPDX-License-Identifier: Apache-2.0
"""The template of a LimaVM: its validation, and its copy `<name>-template`.

The reconciler creates the copy, never admission: a failed creation leaves nothing behind.
Admission stores the validated text in an annotation of the LimaVM, which the reconciler
removes, so the copy is exactly what was validated even if the source is deleted a moment
later (the App deletes it). Only a template that is too large for an annotation is read from
its source again.

An existing copy is adopted if it has the label and no owner, or its owner is gone: it is the
remains of an incomplete operation. Its text is replaced.
"""

import dataclasses
from collections.abc import Mapping

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS
from rdd.kinds.limavm import TEMPLATE_KEY, LimaVM
from rdd.runtime import (
    Denied,
    ObjectKey,
    controller_of,
    is_controlled_by,
    is_deleting,
    owned_by,
    owner_reference,
    remove_finalizer,
    resource_of,
)
from rdd.vm import template as lima

OWNED: str = owned_by(LimaVM.kind)
MAX_ANNOTATION_BYTES = 200 * 1024
"""All annotations of an object together may have 256 KiB."""


def copy_name(name: str) -> str:
    """Return the name of the ConfigMap with a LimaVM's own template."""
    return f"{name}-template"


def source_of(vm: LimaVM) -> ObjectKey:
    """Return the key of the ConfigMap that the template is copied from."""
    reference = vm.spec.template_ref
    own = vm.raw["metadata"].get("namespace") or ""
    return ObjectKey(reference.namespace or own, reference.name)


def with_params(text: str, params: Mapping[str, str]) -> str:
    """Return a template with other values of its params; the same text without any.

    Raises TemplateError for a param that the template does not declare.
    """
    if not params:
        return text
    template = lima.parse(text)
    unknown = sorted(params.keys() - template.param.keys())
    if unknown:
        declared = ", ".join(sorted(template.param)) or "none"
        raise lima.TemplateError(
            [f"spec.params.{name}: the template has no such param; declared: {declared}"
             for name in unknown]
        )  # fmt: skip
    changed = dataclasses.replace(template, param={**template.param, **params})
    return lima.render(changed)


def refuse_unless_valid(
    text: str,
    params: Mapping[str, str],
    *,
    driver: str,
    has_image: bool = False,
) -> None:
    """Raise Denied with all validation errors of a template.

    `driver` would run it, if that is known; drivers have rules of their own.
    `has_image` means that the image does not come from the template.
    """
    try:
        lima.validate(text, driver=driver, has_image=has_image)
        if params:
            lima.validate(with_params(text, params), driver=driver, has_image=has_image)
    except lima.TemplateSyntaxError as error:
        raise Denied(f"failed to parse template: {error}") from None
    except lima.TemplateError as error:
        raise Denied(f"failed to validate template: {error}") from None


def text_of(config_map: Object) -> str:
    """Return the template in a ConfigMap. Raises Denied without one."""
    text: str = (config_map.get("data") or {}).get(TEMPLATE_KEY, "")
    if not text.strip():
        raise Denied(f'"{TEMPLATE_KEY}" data cannot be empty')
    return text


def has_text(config_map: Object, text: str) -> bool:
    return (config_map.get("data") or {}).get(TEMPLATE_KEY) == text


def wanted_text(vm: LimaVM, copy: Object) -> str:
    """Return the desired content of `lima.yaml`. Raises TemplateError."""
    return with_params((copy.get("data") or {}).get(TEMPLATE_KEY) or "", vm.spec.params)


def is_only_larger(present: str | None, wanted: str) -> bool:
    """Return whether two templates differ by a larger disk only, which needs no restart."""
    try:
        old, new = lima.parse(present or ""), lima.parse(wanted)
    except lima.TemplateError:
        return False
    size = new.disk or lima.DEFAULT_DISK
    return dataclasses.replace(old, disk=new.disk) == new and size > (old.disk or lima.DEFAULT_DISK)


class TemplateCopies:
    """The template copies of LimaVMs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def refuse_unless_free(self, namespace: str, name: str) -> None:
        """Raise AlreadyExists if the copy would replace a foreign ConfigMap."""
        found = await self._get(namespace, copy_name(name))
        if found is not None and not await self._is_orphaned(found):
            raise errors.AlreadyExists.of("configmaps", "", copy_name(name))

    async def ensure(self, vm: LimaVM, *, on_disk: str | None = None) -> Object | None:
        """Return the copy, owned by the LimaVM; None while remains of another one are deleted.

        `on_disk` is the template of the instance, the source for a copy that was deleted.
        NotFound if the copy has no source.
        """
        metadata = vm.raw["metadata"]
        namespace, name = metadata["namespace"], copy_name(metadata["name"])
        found = await self._get(namespace, name)
        if found is not None and is_controlled_by(found, vm.raw):
            return found
        if found is None:
            return await self._client.create(CONFIG_MAPS, await self._new_copy(vm, on_disk))
        if not await self._is_orphaned(found):
            raise errors.AlreadyExists.of("configmaps", "", name)
        if is_deleting(found):
            await remove_finalizer(self._client, CONFIG_MAPS, found, OWNED)
            return None
        copy = await self._new_copy(vm, on_disk)
        copy["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        return await self._client.update(CONFIG_MAPS, copy)

    async def release(self, key: ObjectKey) -> None:
        """Delete the copy of a LimaVM that no longer exists."""
        found = await self._get(key.namespace, copy_name(key.name))
        if found is None or names.TEMPLATE_LABEL not in (found["metadata"].get("labels") or {}):
            return
        if OWNED not in (found["metadata"].get("finalizers") or ()):
            return
        if await self._is_orphaned(found):
            kept = await remove_finalizer(self._client, CONFIG_MAPS, found, OWNED)
            if kept is not None and not is_deleting(kept):
                await self._delete(kept)

    async def _new_copy(self, vm: LimaVM, on_disk: str | None) -> Object:
        metadata = vm.raw["metadata"]
        text = (metadata.get("annotations") or {}).get(names.TEMPLATE, on_disk)
        if text is None:
            source = source_of(vm)
            found = await self._client.get(CONFIG_MAPS, source.name, namespace=source.namespace)
            text = (found.get("data") or {}).get(TEMPLATE_KEY) or ""
        return {
            "metadata": {
                "name": copy_name(metadata["name"]),
                "namespace": metadata["namespace"],
                "labels": {names.TEMPLATE_LABEL: "true"},
                "finalizers": [OWNED],
                "ownerReferences": [owner_reference(vm.raw)],
            },
            "data": {TEMPLATE_KEY: text},
        }

    async def _is_orphaned(self, config_map: Object) -> bool:
        """Return whether a ConfigMap is a copy without an existing LimaVM."""
        if names.TEMPLATE_LABEL not in (config_map["metadata"].get("labels") or {}):
            return False
        owner = controller_of(config_map)
        if owner is None:
            return True
        if owner["kind"] != LimaVM.kind:
            return False
        namespace = config_map["metadata"]["namespace"]
        try:
            found = await self._client.get(resource_of(LimaVM), owner["name"], namespace=namespace)
        except errors.NotFound:
            return True
        return bool(found["metadata"]["uid"] != owner["uid"])

    async def _get(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._client.get(CONFIG_MAPS, name, namespace=namespace)
        except errors.NotFound:
            return None

    async def _delete(self, config_map: Object) -> None:
        metadata = config_map["metadata"]
        try:
            await self._client.delete(
                CONFIG_MAPS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
        except errors.NotFound:
            pass
