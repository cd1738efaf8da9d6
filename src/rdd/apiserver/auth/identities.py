# SPDX-License-Identifier: Apache-2.0
"""The names of the users and groups that Kubernetes defines."""

from rdd.api import name_validation

ANONYMOUS = "system:anonymous"
MASTERS = "system:masters"
"""The group whose members may do everything, without RBAC."""
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
NODES = "system:nodes"
SERVICE_ACCOUNTS = "system:serviceaccounts"
VIEWERS = "rdd:viewers"
"""Our own: may see what there is and how it is, but no content (role `rdd:viewer`)."""

_ACCOUNT_PREFIX = "system:serviceaccount:"
_NODE_PREFIX = "system:node:"


def account_username(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, str]:
    """Return the groups of every service account of a namespace."""
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def split_account(username: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account's user name; None for other names."""
    if not username.startswith(_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = username.removeprefix(_ACCOUNT_PREFIX).partition(":")
    is_valid = colon and not (
        name_validation.dns1123_label_errors(namespace)
        or name_validation.dns1123_subdomain_errors(name)
    )
    return (namespace, name) if is_valid else None


def node_name(username: str) -> str:
    """Return the node of a node's user name; empty for other names."""
    name = username.removeprefix(_NODE_PREFIX)
    is_node = name != username and not name_validation.dns1123_subdomain_errors(name)
    return name if is_node else ""
