# SPDX-License-Identifier: Apache-2.0
"""The dependencies of webhook and policy plugins."""

from dataclasses import dataclass

from rdd.apiserver.admission.client import WebhookClient
from rdd.apiserver.admission.matching import Matcher
from rdd.apiserver.auth.authorizer import Authorizer, Lister
from rdd.apiserver.resources import ResourceRegistry


@dataclass(frozen=True, slots=True)
class AdmissionDependencies:
    """The parts of the server that the admission plugins share."""

    lister: Lister
    """Reads configurations, policies and bindings."""
    registry: ResourceRegistry
    matcher: Matcher
    authorizer: Authorizer
    """Backs the `authorizer` variable of CEL expressions."""
    client: WebhookClient
