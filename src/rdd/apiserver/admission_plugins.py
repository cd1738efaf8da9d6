# SPDX-License-Identifier: Apache-2.0
"""The admission plugins of the server, in their order.

The order is that of Kubernetes and visible to clients: which error a write gets first, what a
webhook receives. A new plugin is one line here. What an embedding program adds
(`ServerOptions.plugins`) follows those of users; quotas come late, so that only what every other
plugin has accepted is counted, and fencing last, right before the commit.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rdd.apiserver.admission.chain import Chain, Plugin
from rdd.apiserver.admission.client import WebhookClient
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.fencing import Fencing
from rdd.apiserver.admission.matching import Matcher
from rdd.apiserver.admission.mutating import MutatingWebhooks
from rdd.apiserver.admission.mutating_policies import MutatingPolicies, PolicyReinvocation
from rdd.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from rdd.apiserver.admission.policies import ValidatingPolicies
from rdd.apiserver.admission.validating import ValidatingWebhooks
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.auth.snapshot_access import SnapshotAccess
from rdd.apiserver.quota.admission import ResourceQuotas
from rdd.apiserver.resources import ResourceRegistry
from rdd.apiserver.state.lister import CachedLister

if TYPE_CHECKING:
    from rdd.profiles.current import CurrentProfile


def make_chain(
    registry: ResourceRegistry,
    lister: CachedLister,
    authorizer: RbacAuthorizer,
    webhooks: WebhookClient,
    quotas: ResourceQuotas,
    *,
    profile: "CurrentProfile | None",
    others: Sequence[Plugin],
    clock: Callable[[], float],
    has_user_admission: bool,
) -> Chain:
    """Return the chain of all plugins."""
    namespaces = registry.get("", "v1", "namespaces")
    assert namespaces is not None
    dependencies = AdmissionDependencies(
        lister, registry, Matcher(namespaces.cache), authorizer, webhooks
    )
    mutating_policies = MutatingPolicies(dependencies)
    return Chain(
        [
            NamespaceLifecycle(namespaces.cache),
            *_deployment_profile(profile, registry),
            SnapshotAccess(authorizer),
            mutating_policies,
            MutatingWebhooks(dependencies),
            PolicyReinvocation(mutating_policies),
            ValidatingPolicies(dependencies),
            ValidatingWebhooks(dependencies),
            *others,
            quotas,
            Fencing(lister, clock),
        ],
        has_user_admission=has_user_admission,
    )


def _deployment_profile(
    profile: "CurrentProfile | None", registry: ResourceRegistry
) -> list[Plugin]:
    if profile is None:
        return []
    from rdd.apiserver.profile.admission import DeploymentProfile

    return [DeploymentProfile(profile, registry)]
