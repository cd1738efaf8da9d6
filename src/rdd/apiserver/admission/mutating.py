# SPDX-License-Identifier: Apache-2.0
"""MutatingAdmissionWebhook: webhooks that modify an object before it is validated.

They are called sequentially, ordered by configuration name and position, each with the object as
the previous ones left it. If one modifies the object, earlier webhooks with reinvocationPolicy
IfNeeded are called once more; there is no third call.
"""

import orjson

from rdd.api import decode, errors
from rdd.apiserver.admission import patches, review, warnings
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.admission.webhooks import CompiledWebhook, WebhookCallError, Webhooks, log
from rdd.apiserver.resources import Resource
from rdd.base.gotext import quote

RESOURCE = "mutatingwebhookconfigurations"
_ANNOTATION = "mutation.webhook.admission.k8s.io"


class _ReinvocationState:
    """The webhooks to call again after a later one modified the object."""

    def __init__(self) -> None:
        self.is_needed = False
        self.waiting: set[CompiledWebhook] = set()
        """Called, and to be called again after a later change."""
        self.due: set[CompiledWebhook] = set()

    def changed(self) -> None:
        """Record that a webhook modified the object."""
        self.is_needed = True
        self.due |= self.waiting
        self.waiting.clear()


class MutatingWebhooks:
    """The admission plugin MutatingAdmissionWebhook."""

    def __init__(self, dependencies: AdmissionDependencies) -> None:
        self._hooks = Webhooks(dependencies, RESOURCE)

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return mutating and self._hooks.select_any(attributes)

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Call the webhooks, in one or two rounds."""
        versions = self._hooks.versions(attributes)
        again = _ReinvocationState()
        await self._round(0, attributes, versions, again)
        if again.is_needed:
            await self._round(1, attributes, versions, again)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing."""

    async def _round(
        self,
        number: int,
        attributes: AdmissionAttributes,
        versions: Versions,
        again: _ReinvocationState,
    ) -> None:
        for position, (hook, narrowed) in enumerate(self._hooks.candidates(attributes)):
            if number and hook not in again.due:
                continue
            target = await self._hooks.target(hook, narrowed, attributes, versions)
            if target is None:
                continue
            annotations = attributes.request.audit_annotations
            where = f"{_ANNOTATION}/round_{number}_index_{position}"
            is_changed = False
            try:
                is_changed = await self._call(hook, target, attributes, versions)
            except WebhookCallError as error:
                if not hook.is_ignored_on_failure:
                    raise errors.InternalError.because(str(error)) from error
                log.warning("Failed calling webhook, failing open %s: %s", hook.name, error)
                annotations[f"failed-open.{where}"] = hook.name
            annotations[where] = orjson.dumps(
                {
                    "configuration": hook.configuration,
                    "webhook": hook.name,
                    "mutated": is_changed,
                }
            ).decode()
            if is_changed:
                again.changed()
            if hook.is_reinvoked:
                again.waiting.add(hook)

    async def _call(
        self,
        hook: CompiledWebhook,
        target: Resource,
        attributes: AdmissionAttributes,
        versions: Versions,
    ) -> bool:
        objects = await versions.of(target)
        response = await self._hooks.call(hook, attributes, target, objects, is_mutating=True)
        warnings.add(attributes.request.warnings, response.warnings)
        if not response.is_allowed:
            raise review.denial(hook.name, response.status)
        if not response.patch:
            return False
        try:
            patch = decode.decode_json(response.patch)
            if isinstance(patch, list) and patch and objects[0] is None:
                raise errors.InternalError.because(
                    f"admission webhook {quote(hook.name)} attempted to modify the object, "
                    "which is not supported for this operation"
                )
            patched = patches.apply(objects[0] or {}, patch)
        except (errors.BadRequest, errors.RequestEntityTooLarge) as error:
            raise WebhookCallError(
                hook.name, f"received undecodable patch in webhook response: {error.message}"
            ) from None
        if not patch:
            return False
        if response.patch_type != review.JSON_PATCH:
            raise WebhookCallError(
                hook.name, f"unsupported patch type {quote(response.patch_type)}"
            )
        return await versions.replace(target, patched)
