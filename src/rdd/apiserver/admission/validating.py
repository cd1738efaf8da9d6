# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionWebhook: webhooks that validate an object in its stored form.

They are called concurrently, because no response depends on another. If several reject the write,
the client receives the first one by configuration name and position, so the response is
deterministic.
"""

import asyncio

from rdd.api import errors
from rdd.apiserver.admission import review, warnings
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.admission.webhooks import CompiledWebhook, WebhookCallError, Webhooks, log
from rdd.apiserver.resources import Resource

RESOURCE = "validatingwebhookconfigurations"
_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io"


class ValidatingWebhooks:
    """The admission plugin ValidatingAdmissionWebhook."""

    def __init__(self, dependencies: AdmissionDependencies) -> None:
        self._hooks = Webhooks(dependencies, RESOURCE)

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return not mutating and self._hooks.select_any(attributes)

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing."""

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Call the webhooks; raise the error of the first that does not allow the write."""
        versions = self._hooks.versions(attributes)
        calls: list[tuple[CompiledWebhook, Resource]] = []
        for hook, narrowed in self._hooks.candidates(attributes):
            target = await self._hooks.target(hook, narrowed, attributes, versions)
            if target is not None:
                calls.append((hook, target))
        if len(calls) == 1:
            outcomes = [await self._call(*calls[0], attributes, versions, 0)]
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        self._call(hook, target, attributes, versions, position),
                        name=f"rdd-webhook-{hook.name}",
                    )
                    for position, (hook, target) in enumerate(calls)
                ]
            outcomes = [task.result() for task in tasks]
        for response in outcomes:
            if isinstance(response, review.WebhookResponse):
                warnings.add(attributes.request.warnings, response.warnings)
        for (hook, _), response in zip(calls, outcomes, strict=True):
            if isinstance(response, errors.ApiError):
                raise response
            if response is not None and not response.is_allowed:
                raise review.denial(hook.name, response.status)

    async def _call(
        self,
        hook: CompiledWebhook,
        target: Resource,
        attributes: AdmissionAttributes,
        versions: Versions,
        position: int,
    ) -> review.WebhookResponse | errors.ApiError | None:
        """Return the response or the error of the call; None if the failure is ignored."""
        objects = await versions.of(target)
        try:
            return await self._hooks.call(hook, attributes, target, objects, is_mutating=False)
        except errors.ApiError as error:
            return error
        except WebhookCallError as error:
            if not hook.is_ignored_on_failure:
                return errors.InternalError.because(str(error))
            log.warning("Failed calling webhook, failing open %s: %s", hook.name, error)
            annotation = f"{_FAILED_OPEN}/round_0_index_{position}"
            attributes.request.audit_annotations[annotation] = hook.name
            return None
