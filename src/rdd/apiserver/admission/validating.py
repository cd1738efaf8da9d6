# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionWebhook: webhooks that look at an object as it will be stored.

They are asked all at once, because none can see what another one answers. When
several refuse, the client is told of the first by configuration name and
position, so that the answer to a request does not depend on chance.
"""

import asyncio

from rdd.api import errors
from rdd.apiserver.admission import review, warnings
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.hooks import CallError, Webhook, Webhooks, log
from rdd.apiserver.admission.types import Attributes
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource

RESOURCE = "validatingwebhookconfigurations"
_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io"


class ValidatingWebhooks:
    """The admission plugin ValidatingAdmissionWebhook."""

    def __init__(self, dependencies: AdmissionDependencies) -> None:
        self._hooks = Webhooks(dependencies, RESOURCE)

    def handles(self, attributes: Attributes, *, mutating: bool) -> bool:
        """Whether a webhook has to be asked."""
        return not mutating and self._hooks.are_concerned(attributes)

    async def mutate(self, attributes: Attributes) -> None:
        """These webhooks are not asked yet then."""

    async def validate(self, attributes: Attributes) -> None:
        """Ask the webhooks; raises the error of the first that does not allow the write."""
        versions = self._hooks.versions(attributes)
        calls: list[tuple[Webhook, Resource]] = []
        for hook, narrowed in self._hooks.candidates(attributes):
            target = await self._hooks.target(hook, narrowed, attributes, versions)
            if target is not None:
                calls.append((hook, target))
        if len(calls) == 1:
            outcomes = [await self._ask(*calls[0], attributes, versions, 0)]
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        self._ask(hook, target, attributes, versions, position),
                        name=f"rdd-webhook-{hook.name}",
                    )
                    for position, (hook, target) in enumerate(calls)
                ]
            outcomes = [task.result() for task in tasks]
        for answer in outcomes:
            if isinstance(answer, review.Answer):
                warnings.add(attributes.request.warnings, answer.warnings)
        for (hook, _), answer in zip(calls, outcomes, strict=True):
            if isinstance(answer, errors.ApiError):
                raise answer
            if answer is not None and not answer.is_allowed:
                raise review.denial(hook.name, answer.status)

    async def _ask(
        self,
        hook: Webhook,
        target: Resource,
        attributes: Attributes,
        versions: Versions,
        position: int,
    ) -> review.Answer | errors.ApiError | None:
        """The answer, or why there is none; None if that does not matter."""
        objects = await versions.of(target)
        try:
            return await self._hooks.ask(hook, attributes, target, objects, is_mutating=False)
        except errors.ApiError as error:
            return error
        except CallError as error:
            if not hook.is_ignored_on_failure:
                return errors.InternalError.because(str(error))
            log.warning("Failed calling webhook, failing open %s: %s", hook.name, error)
            annotation = f"{_FAILED_OPEN}/round_0_index_{position}"
            attributes.request.audit_annotations[annotation] = hook.name
            return None
