# SPDX-License-Identifier: Apache-2.0
"""MutatingAdmissionWebhook: webhooks that change an object before it is validated.

They are asked one after the other, by configuration name and position, each
with what those before it made of the object. If one changed it, those before it
that want to know (reinvocationPolicy IfNeeded) are asked once more; nobody is
asked a third time.
"""

import orjson

from rdd.api import decode, errors
from rdd.apiserver.admission import patches, review, warnings
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.hooks import CallError, Webhook, Webhooks, log
from rdd.apiserver.admission.types import Attributes
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource
from rdd.base.gotext import quote

RESOURCE = "mutatingwebhookconfigurations"
_ANNOTATION = "mutation.webhook.admission.k8s.io"


class _Reinvocation:
    """Which webhooks are asked again after a change by a later one."""

    def __init__(self) -> None:
        self.is_needed = False
        self.waiting: set[Webhook] = set()
        """Asked, and interested in later changes."""
        self.due: set[Webhook] = set()

    def changed(self) -> None:
        """A webhook changed the object."""
        self.is_needed = True
        self.due |= self.waiting
        self.waiting.clear()


class MutatingWebhooks:
    """The admission plugin MutatingAdmissionWebhook."""

    def __init__(self, dependencies: AdmissionDependencies) -> None:
        self._hooks = Webhooks(dependencies, RESOURCE)

    def handles(self, attributes: Attributes, *, mutating: bool) -> bool:
        """Whether a webhook has to be asked."""
        return mutating and self._hooks.are_concerned(attributes)

    async def mutate(self, attributes: Attributes) -> None:
        """Ask the webhooks, in one or two rounds."""
        versions = self._hooks.versions(attributes)
        again = _Reinvocation()
        await self._round(0, attributes, versions, again)
        if again.is_needed:
            await self._round(1, attributes, versions, again)

    async def validate(self, attributes: Attributes) -> None:
        """These webhooks are no longer asked then."""

    async def _round(
        self, number: int, attributes: Attributes, versions: Versions, again: _Reinvocation
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
                is_changed = await self._ask(hook, target, attributes, versions)
            except CallError as error:
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

    async def _ask(
        self, hook: Webhook, target: Resource, attributes: Attributes, versions: Versions
    ) -> bool:
        objects = await versions.of(target)
        answer = await self._hooks.ask(hook, attributes, target, objects, is_mutating=True)
        warnings.add(attributes.request.warnings, answer.warnings)
        if not answer.is_allowed:
            raise review.denial(hook.name, answer.status)
        if not answer.patch:
            return False
        try:
            patch = decode.decode_json(answer.patch)
            if isinstance(patch, list) and patch and objects[0] is None:
                raise errors.InternalError.because(
                    f"admission webhook {quote(hook.name)} attempted to modify the object, "
                    "which is not supported for this operation"
                )
            patched = patches.apply(objects[0] or {}, patch)
        except (errors.BadRequest, errors.RequestEntityTooLarge) as error:
            raise CallError(
                hook.name, f"received undecodable patch in webhook response: {error.message}"
            ) from None
        if not patch:
            return False
        if answer.patch_type != review.JSON_PATCH:
            raise CallError(hook.name, f"unsupported patch type {quote(answer.patch_type)}")
        return await versions.replace(target, patched)
