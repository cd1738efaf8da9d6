# SPDX-License-Identifier: Apache-2.0
"""MutatingAdmissionPolicy: changes in CEL instead of a webhook.

Policies run before mutating webhooks, ordered by name, each with the object as the previous one
left it. A policy with reinvocationPolicy IfNeeded runs once more if a later policy or a webhook
has changed the object since: `PolicyReinvocation` follows the webhooks in the chain. There is no
third time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.admission import params, review
from rdd.apiserver.admission.bound_policies import Binding, BoundPolicies, Policy
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.params import ConfigurationError
from rdd.apiserver.admission.rules import NarrowedCriteria
from rdd.apiserver.admission.versions import Versions
from rdd.apiserver.resources import Resource

if TYPE_CHECKING:
    from rdd.apiserver.admission.mutations import Mutator

POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"


def _make_mutator(spec: Mapping[str, Any]) -> "Mutator":
    # CEL is a large import, and most servers have no policies.
    from rdd.apiserver.admission.mutations import Mutator

    return Mutator(spec)


class MutatingPolicies:
    """The admission plugin MutatingAdmissionPolicy."""

    def __init__(self, dependencies: AdmissionDependencies) -> None:
        self._dependencies = dependencies
        self._bound = BoundPolicies(dependencies, POLICIES, BINDINGS, _make_mutator)

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return mutating and attributes.object is not None and self._bound.selects(attributes)

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Make the changes of all policies."""
        due: dict[str, bytes] = {}
        for policy, narrowed in self._bound.candidates(attributes):
            await self._run(policy, narrowed, attributes)
            if policy.spec.get("reinvocationPolicy") == "IfNeeded":
                due[policy.name] = orjson.dumps(attributes.object)
        attributes.reinvocation = due

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing."""

    async def reinvoke(self, attributes: AdmissionAttributes) -> None:
        """Run the policies again after which the object has changed."""
        due = attributes.reinvocation or {}
        for policy, narrowed in self._bound.candidates(attributes):
            if policy.name in due and orjson.dumps(attributes.object) != due[policy.name]:
                await self._run(policy, narrowed, attributes)

    async def _run(
        self,
        policy: "Policy[Mutator]",
        narrowed: NarrowedCriteria,
        attributes: AdmissionAttributes,
    ) -> None:
        matcher = self._dependencies.matcher
        target = matcher.target(narrowed, attributes, attributes.object)
        if target is not None:
            await self._apply(policy, target, attributes)

    async def _apply(
        self, policy: "Policy[Mutator]", target: Resource, attributes: AdmissionAttributes
    ) -> None:
        kind = policy.spec.get("paramKind")
        try:
            resource = params.find_kind(self._dependencies.registry, kind) if kind else None
        except ConfigurationError as error:
            if not policy.is_lenient:
                raise _rejection(policy, None, f"failed to configure policy: {error}") from None
            return
        for binding, narrowed in policy.bindings.candidates(attributes):
            if self._dependencies.matcher.target(narrowed, attributes, attributes.object) is None:
                continue
            try:
                found = await params.collect(
                    resource, binding.param_ref, review.namespace_of(attributes)
                )
            except ConfigurationError as error:
                if not policy.is_lenient:
                    why = f"failed to configure binding: {error}"
                    raise _rejection(policy, binding, why) from None
                continue
            for param in found:
                await self._change(policy, binding, target, attributes, param)

    async def _change(
        self,
        policy: "Policy[Mutator]",
        binding: Binding,
        target: Resource,
        attributes: AdmissionAttributes,
        param: Object | None,
    ) -> None:
        """Make the changes of a policy for one parameter: all of them, or none."""
        from rdd.apiserver import cel_evaluation
        from rdd.apiserver.admission.mutations import MutationFailed

        versions = Versions(attributes)
        obj = attributes.object
        assert obj is not None
        before = orjson.dumps(obj)
        try:
            variables = await self._bound.variables(attributes, target, versions, param)
            evaluator = await policy.evaluator()
            if not await cel_evaluation.run(len(before), evaluator.applies, variables):
                return
            for mutation in evaluator.mutations:
                variables = await self._bound.variables(attributes, target, versions, param)
                patched = await cel_evaluation.run(len(before), mutation.patched, target, variables)
                if patched is not None:
                    await versions.replace(target, patched)
        except (MutationFailed, errors.InternalError) as error:
            obj.clear()
            obj.update(orjson.loads(before))
            if not policy.is_lenient:
                why = str(error).removeprefix("Internal error occurred: ")
                raise _rejection(policy, binding, why) from None


class PolicyReinvocation:
    """The step after mutating webhooks that runs policies again."""

    def __init__(self, policies: MutatingPolicies) -> None:
        self._policies = policies

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return mutating and bool(attributes.reinvocation)

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Run the policies again that need it."""
        await self._policies.reinvoke(attributes)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing."""


def _rejection(policy: "Policy[Mutator]", binding: Binding | None, why: str) -> errors.ApiError:
    by = f" with binding '{binding.name}'" if binding else ""
    return errors.ApiError(
        f"policy '{policy.name}'{by} denied request: {why}", code=403, reason="Invalid"
    )
