# SPDX-License-Identifier: Apache-2.0
"""The ceiling: the most that clients may do, whatever RBAC grants them.

The section `rdd` of a deployment profile sets it. Every identity from outside of the process is
limited, however it was proved: the tokens of the kubeconfig, certificates, service accounts,
impersonation, sessions of the dashboard. None of them is in system:masters then. One that was
becomes a member of `rdd:administrators`, which may do what the ceiling allows; any other needs
the grant of RBAC as well.

Requests of the daemon's own controllers are not limited: they never come over a socket.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rdd.apiserver.auth import bootstrap_policy, identities
from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.auth.policy_rules import RbacRule
from rdd.apiserver.http.request import User

ADMINISTRATORS = "rdd:administrators"
"""The group of identities that the ceiling has removed from system:masters."""

_ALWAYS = ("system:basic-user", "system:discovery", "system:public-info-viewer")
"""Roles without which no client works: what is served, and what the client itself may do."""


class Ceiling:
    """The rules of one profile."""

    def __init__(self, rules: Sequence[Mapping[str, Any]], origin: str) -> None:
        self.origin = origin
        """The file with the rules, for messages."""
        basic = [rule for role in _ALWAYS for rule in bootstrap_policy.rules_of(role)]
        self.rules = [RbacRule(dict(rule)) for rule in (*rules, *basic)]

    def limited(self, user: User) -> User:
        """Return the user without membership in system:masters."""
        if not user.is_master:
            return user
        groups = [group for group in user.groups if group != identities.MASTERS]
        return User(user.name, (ADMINISTRATORS, *groups), uid=user.uid, extra=user.extra)

    def allows(self, attributes: AuthorizationAttributes) -> bool:
        """Return whether a request is within the ceiling."""
        if not attributes.is_resource:
            verb, path = attributes.verb, attributes.path
            return any(rule.allows_path(verb, path) for rule in self.rules)
        return any(
            rule.allows_resource(
                attributes.verb,
                attributes.group,
                attributes.resource,
                attributes.subresource,
                attributes.name,
            )
            for rule in self.rules
        )
