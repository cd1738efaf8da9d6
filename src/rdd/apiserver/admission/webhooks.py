# SPDX-License-Identifier: Apache-2.0
"""Compiled webhook configurations and the call of one webhook.

`Webhooks` follows the configuration objects of one resource: it compares the revision of their
cache with every write and recompiles them only after a change. The mutating and the validating
plugin use it.

Two kinds of failure are distinct. `WebhookCallError` means that a webhook could not be called or
returned an invalid response; failurePolicy decides the effect. Every other failure (a denial, a
dry run that the webhook does not support) is an ApiError that always rejects the write.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission import review
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.client import CallFailed, WebhookEndpoint
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.matching import CriteriaIndex
from rdd.apiserver.admission.rules import Criteria, NarrowedCriteria
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource
from rdd.base.gotext import quote

if TYPE_CHECKING:
    from rdd.apiserver.admission.conditions import MatchConditions

log = logging.getLogger("rdd.apiserver.admission")


class WebhookCallError(Exception):
    """A webhook could not be called; failurePolicy decides the effect."""

    def __init__(self, webhook: str, reason: str) -> None:
        super().__init__(f"failed calling webhook {quote(webhook)}: {reason}")


@dataclass(frozen=True, slots=True, eq=False)
class CompiledWebhook:
    """One webhook of one configuration."""

    configuration: str
    name: str
    endpoint: WebhookEndpoint
    is_ignored_on_failure: bool
    timeout_s: int
    side_effects: str
    review_version: str
    """The first accepted version that the server supports; empty if there is none."""
    is_reinvoked: bool
    conditions: "MatchConditions | None"

    @classmethod
    def of(cls, configuration: str, hook: Mapping[str, Any]) -> "CompiledWebhook":
        """Compile a webhook."""
        versions = hook.get("admissionReviewVersions") or ()
        return cls(
            configuration,
            hook.get("name") or "",
            WebhookEndpoint.of(hook.get("clientConfig") or {}),
            hook.get("failurePolicy") == "Ignore",
            hook.get("timeoutSeconds") or 10,
            hook.get("sideEffects") or "",
            next((v for v in versions if v in review.VERSIONS), ""),
            hook.get("reinvocationPolicy") == "IfNeeded",
            _conditions(hook.get("matchConditions")),
        )


def _conditions(found: Sequence[Mapping[str, Any]] | None) -> "MatchConditions | None":
    if not found:
        return None
    # CEL is a large import, and most webhooks have no conditions.
    from rdd.apiserver.admission.conditions import MatchConditions

    return MatchConditions(c.get("expression") or "" for c in found)


class Webhooks:
    """The webhooks of all configurations of one resource, ordered by name and position."""

    def __init__(self, dependencies: AdmissionDependencies, resource: str) -> None:
        self._dependencies = dependencies
        self._resource = resource
        self._revision = -1
        self._index: CriteriaIndex[CompiledWebhook] | None = None

    def candidates(
        self, attributes: AdmissionAttributes
    ) -> Sequence[tuple[CompiledWebhook, NarrowedCriteria]]:
        """Return the webhooks whose rules select a write."""
        revision = self._dependencies.lister.revision(self._resource)
        if revision != self._revision:
            self._compile()
            self._revision = revision
        index = self._index
        # A webhook that rejects changes of configurations could never be removed.
        if index is None or attributes.resource.group == names.ADMISSION_GROUP:
            return ()
        return index.candidates(attributes)

    def _compile(self) -> None:
        found = sorted(
            self._dependencies.lister.list(self._resource), key=lambda c: str(c["metadata"]["name"])
        )
        hooks = [
            (CompiledWebhook.of(configuration["metadata"]["name"], hook), Criteria.of_webhook(hook))
            for configuration in found
            for hook in configuration.get("webhooks") or ()
        ]
        self._index = None
        if hooks:
            self._index = CriteriaIndex(
                self._dependencies.registry, hooks, applies_always=self._is_in_process
            )

    def _is_in_process(self, hook: CompiledWebhook) -> bool:
        return self._dependencies.client.endpoints.find(hook.endpoint.url) is not None

    def versions(self, attributes: AdmissionAttributes) -> Versions:
        """Return the objects of a write, convertible to the versions of the webhooks."""
        return Versions(attributes)

    def select_any(self, attributes: AdmissionAttributes) -> bool:
        """Return whether any webhook selects a write, before match conditions; never awaits."""
        return self._dependencies.matcher.selects_any(self.candidates(attributes), attributes)

    async def target(
        self,
        hook: CompiledWebhook,
        narrowed: NarrowedCriteria,
        attributes: AdmissionAttributes,
        versions: Versions,
    ) -> Resource | None:
        """Return the version in which a webhook receives a write; None if it is not selected.

        Raises Forbidden if its conditions cannot be evaluated (and failurePolicy is Fail).
        """
        target = self._dependencies.matcher.target(narrowed, attributes, attributes.object)
        if target is None or hook.conditions is None:
            return target
        from rdd.apiserver import cel_evaluation
        from rdd.apiserver.admission import conditions

        bindings = await conditions.bindings(
            attributes, target, versions, self._dependencies.authorizer
        )
        failures = await cel_evaluation.run(
            len(attributes.request.body), hook.conditions.failures, bindings
        )
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
            conditions.join_failures(failures),
        )

    async def call(
        self,
        hook: CompiledWebhook,
        attributes: AdmissionAttributes,
        target: Resource,
        objects: tuple[Object | None, Object | None],
        *,
        is_mutating: bool,
    ) -> review.WebhookResponse:
        """Call a webhook; raise WebhookCallError, or BadRequest for an unsupported dry run."""
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise errors.BadRequest(
                f"admission webhook {quote(hook.name)} does not support dry run"
            )
        if not hook.review_version:
            known = ", ".join(review.VERSIONS)
            raise WebhookCallError(
                hook.name,
                "could not create admission objects: "
                f"webhook does not accept known AdmissionReview versions ({known})",
            )
        uid, version = str(uuid.uuid4()), hook.review_version
        sent = review.build_review(attributes, target, objects, version=version, uid=uid)
        try:
            found = await self._dependencies.client.call(
                hook.endpoint, sent, timeout_s=hook.timeout_s, request=attributes.request
            )
            response = review.parse_response(
                found, version=version, uid=uid, is_mutating=is_mutating
            )
        except CallFailed as error:
            raise WebhookCallError(hook.name, f"failed to call webhook: {error}") from error
        except review.InvalidResponse as error:
            what = (
                "received invalid webhook response"
                if error.is_decoded
                else ("failed to call webhook")
            )
            raise WebhookCallError(hook.name, f"{what}: {error}") from error
        for key, value in response.audit_annotations.items():
            attributes.request.audit_annotations[f"{hook.name}/{key}"] = value
        return response
