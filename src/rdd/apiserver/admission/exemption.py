# SPDX-License-Identifier: Apache-2.0
"""Writes that admission defined by users does not see.

A user's webhook or policy can match what the daemon itself has to write before its API is up: the
discovery ConfigMap, the Leases of its controllers, its namespace, its definitions. If such a write
depended on user admission, a webhook with a dead URL would lock the daemon out, and no client could
delete the webhook, because there would be no API to delete it with. So these writes, made in this
process by the daemon, skip every webhook and policy of users. Webhooks in this process, which are
those of rdd's own controllers, still apply.

Everything else the daemon writes for users (objects that controllers create, garbage collection)
stays subject to admission, as the writes of kube-controller-manager are.
"""

from rdd.api import names
from rdd.apiserver.http.request import SYSTEM, User
from rdd.apiserver.resources import Resource

DAEMON = User("system:kube-controller-manager", ("system:masters", "system:authenticated"))
"""The user of requests that the controllers inside the daemon make."""

_DAEMON_NAMES = frozenset({SYSTEM.name, DAEMON.name})
_ALWAYS = frozenset(
    {
        names.ADMISSION_GROUP,
        names.EXTENSIONS_GROUP,
        names.REGISTRATION_GROUP,
        names.RBAC_GROUP,
        names.COORDINATION_GROUP,
    }
)
_OWN_GROUPS = frozenset(
    {names.APP_GROUP, names.CONTAINERS_GROUP, names.LIMA_GROUP, names.RDD_GROUP}
)
_NAMESPACES = frozenset(
    {
        names.SYSTEM_NAMESPACE,
        names.DEFAULT_NAMESPACE,
        names.KUBE_SYSTEM_NAMESPACE,
        names.KUBE_PUBLIC_NAMESPACE,
    }
)


def is_from_daemon(user: User) -> bool:
    """Return whether a request made in this process is one of the daemon itself."""
    return user.name in _DAEMON_NAMES


def is_needed_to_start(
    user: User, resource: Resource, *, namespace: str, name: str, subresource: str
) -> bool:
    """Return whether a write made in this process is one that the daemon needs to come up.

    The status of rdd's own kinds is included: it records what the daemon has observed, and the
    startup hooks of its controllers reset what an earlier process wrote there.
    """
    if not is_from_daemon(user):
        return False
    group = resource.group
    if namespace == names.SYSTEM_NAMESPACE or group in _ALWAYS:
        return True
    if not group and resource.plural == "namespaces":
        return name in _NAMESPACES
    return subresource == "status" and group in _OWN_GROUPS
