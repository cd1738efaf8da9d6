# SPDX-License-Identifier: Apache-2.0
"""Resources by group, version and plural, and the paths they are served at.

The constants are the resources that every server has; `rdd.client.discovery`
finds the others.
"""

from typing import NamedTuple
from urllib.parse import quote

from rdd.api import names

# Characters that a path segment may contain unescaped; names of roles contain colons.
_SAFE = ":@!$&'()*+,;=~"


class ApiResource(NamedTuple):
    """One resource in one version.

    A named tuple, because every call of kubectl pays for defining it. All members
    from `verbs` on are only set if the resource comes from discovery.
    """

    group: str
    version: str
    plural: str
    kind: str = ""
    namespaced: bool = True
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1`, or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`roles.rbac.authorization.k8s.io`, or just the plural in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, or of a collection (all namespaces without one)."""
        root = f"/apis/{self.group}" if self.group else "/api"
        scope = f"/namespaces/{quote(namespace, safe=_SAFE)}" if namespace else ""
        path = f"{root}/{self.version}{scope}/{self.plural}"
        if name:
            path += "/" + quote(name, safe=_SAFE)
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        """Return the form of Go's GroupVersionResource, which messages of Kubernetes contain."""
        return f"{self.group}/{self.version}, Resource={self.plural}"


NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = ApiResource("", "v1", "configmaps", "ConfigMap")
SECRETS = ApiResource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = ApiResource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = ApiResource("", "v1", "events", "Event")
LEASES = ApiResource(names.COORDINATION_GROUP, "v1", "leases", "Lease")
ROLES = ApiResource(names.RBAC_GROUP, "v1", "roles", "Role")
ROLE_BINDINGS = ApiResource(names.RBAC_GROUP, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = ApiResource(names.RBAC_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = ApiResource(
    names.RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = ApiResource(
    names.EXTENSIONS_GROUP,
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
