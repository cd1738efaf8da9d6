# SPDX-License-Identifier: Apache-2.0
"""What webhooks and policies need of the server they belong to."""

from dataclasses import dataclass

from rdd.apiserver.admission.client import WebhookClient
from rdd.apiserver.admission.matching import Matcher
from rdd.apiserver.auth.authorizer import Authorizer, Lister
from rdd.apiserver.resources import Registry


@dataclass(frozen=True, slots=True)
class AdmissionDependencies:
    """The parts of one server that its admission plugins share."""

    lister: Lister
    """Where configurations, policies and bindings are read."""
    registry: Registry
    matcher: Matcher
    authorizer: Authorizer
    """Answers the `authorizer` of CEL expressions."""
    client: WebhookClient
