# SPDX-License-Identifier: Apache-2.0
"""Webhook configurations, compiled, and how one webhook is asked.

`Webhooks` follows the configuration objects of one resource: it compares the
revision of their cache with every write and compiles them again only when it
changed. The mutating and the validating plugin build on it.

Two kinds of trouble are kept apart. `CallError` means that a webhook could not
be asked or answered nonsense; failurePolicy decides what that does. Everything
else (a denial, a dry run the webhook does not support) is an ApiError that
always refuses the write.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission import review
from rdd.apiserver.admission.client import CallFailed, Endpoint
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.matching import Index
from rdd.apiserver.admission.rules import Criteria, Narrowed
from rdd.apiserver.admission.types import Attributes
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource
from rdd.base.gotext import quote

if TYPE_CHECKING:
    from rdd.apiserver.admission.conditions import Conditions

log = logging.getLogger("rdd.apiserver.admission")


class CallError(Exception):
    """A webhook could not be asked; failurePolicy decides."""

    def __init__(self, webhook: str, reason: str) -> None:
        super().__init__(f"failed calling webhook {quote(webhook)}: {reason}")


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    """One webhook of one configuration."""

    configuration: str
    name: str
    endpoint: Endpoint
    is_ignored_on_failure: bool
    timeout_s: int
    side_effects: str
    review_version: str
    """The first version it accepts that we can speak; empty if there is none."""
    is_reinvoked: bool
    conditions: "Conditions | None"

    @classmethod
    def of(cls, configuration: str, hook: Mapping[str, Any]) -> "Webhook":
        """Compile a webhook."""
        versions = hook.get("admissionReviewVersions") or ()
        return cls(
            configuration,
            hook.get("name") or "",
            Endpoint.of(hook.get("clientConfig") or {}),
            hook.get("failurePolicy") == "Ignore",
            hook.get("timeoutSeconds") or 10,
            hook.get("sideEffects") or "",
            next((v for v in versions if v in review.VERSIONS), ""),
            hook.get("reinvocationPolicy") == "IfNeeded",
            _conditions(hook.get("matchConditions")),
        )


def _conditions(found: Sequence[Mapping[str, Any]] | None) -> "Conditions | None":
    if not found:
        return None
    # CEL is large, and most webhooks have no conditions.
    from rdd.apiserver.admission.conditions import Conditions

    return Conditions(c.get("expression") or "" for c in found)


class Webhooks:
    """The webhooks of all configurations of one resource, by name and position."""

    def __init__(self, dependencies: AdmissionDependencies, resource: str) -> None:
        self._dependencies = dependencies
        self._resource = resource
        self._revision = -1
        self._index: Index[Webhook] | None = None

    def candidates(self, attributes: Attributes) -> Sequence[tuple[Webhook, Narrowed]]:
        """The webhooks whose rules select a write."""
        revision = self._dependencies.lister.revision(self._resource)
        if revision != self._revision:
            self._compile()
            self._revision = revision
        index = self._index
        # Whoever could stop changes of the configurations could never be stopped again.
        if index is None or attributes.resource.group == names.ADMISSION_GROUP:
            return ()
        return index.candidates(attributes)

    def _compile(self) -> None:
        found = sorted(
            self._dependencies.lister.list(self._resource), key=lambda c: str(c["metadata"]["name"])
        )
        hooks = [
            (Webhook.of(configuration["metadata"]["name"], hook), Criteria.of_webhook(hook))
            for configuration in found
            for hook in configuration.get("webhooks") or ()
        ]
        self._index = Index(self._dependencies.registry, hooks) if hooks else None

    def versions(self, attributes: Attributes) -> Versions:
        """The objects of a write in the versions webhooks ask for."""
        return Versions(attributes)

    def are_concerned(self, attributes: Attributes) -> bool:
        """Whether any webhook has to look at a write (conditions aside). Never awaits."""
        found = self.candidates(attributes)
        if not found:
            return False
        target = self._dependencies.matcher.target
        return any(
            target(narrowed, attributes, attributes.object) is not None for _, narrowed in found
        )

    async def target(
        self, hook: Webhook, narrowed: Narrowed, attributes: Attributes, versions: Versions
    ) -> Resource | None:
        """The version in which a webhook wants to see a write, None if it does not want to.

        Raises Forbidden if its conditions cannot be evaluated (and failurePolicy is Fail).
        """
        target = self._dependencies.matcher.target(narrowed, attributes, attributes.object)
        if target is None or hook.conditions is None:
            return target
        from rdd.apiserver.admission import conditions

        bindings = await conditions.bindings(
            attributes, target, versions, self._dependencies.authorizer
        )
        failures = hook.conditions.failures(bindings)
        if failures is None:
            return None
        if not failures:
            return target
        if hook.is_ignored_on_failure:
            return None
        resource = attributes.resource
        raise errors.Forbidden.to_object(
            resource.plural,
            resource.group,
            review.name_of(attributes),
            conditions.aggregate(failures),
        )

    async def ask(
        self,
        hook: Webhook,
        attributes: Attributes,
        target: Resource,
        objects: tuple[Object | None, Object | None],
        *,
        is_mutating: bool,
    ) -> review.Answer:
        """The answer of a webhook; raises CallError, or BadRequest for an unsupported dry run."""
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise errors.BadRequest(
                f"admission webhook {quote(hook.name)} does not support dry run"
            )
        if not hook.review_version:
            known = ", ".join(review.VERSIONS)
            raise CallError(
                hook.name,
                "could not create admission objects: "
                f"webhook does not accept known AdmissionReview versions ({known})",
            )
        uid, version = str(uuid.uuid4()), hook.review_version
        question = review.question(attributes, target, objects, version=version, uid=uid)
        try:
            found = await self._dependencies.client.call(
                hook.endpoint, question, timeout_s=hook.timeout_s, request=attributes.request
            )
            answer = review.read_answer(found, version=version, uid=uid, is_mutating=is_mutating)
        except CallFailed as error:
            raise CallError(hook.name, f"failed to call webhook: {error}") from error
        except review.BadAnswer as error:
            what = (
                "received invalid webhook response"
                if error.is_decoded
                else ("failed to call webhook")
            )
            raise CallError(hook.name, f"{what}: {error}") from error
        for key, value in answer.audit_annotations.items():
            attributes.request.audit_annotations[f"{hook.name}/{key}"] = value
        return answer
