# SPDX-License-Identifier: Apache-2.0
"""Resources by group, version and plural, and the paths they are served at."""

from dataclasses import dataclass
from urllib.parse import quote

# What a path segment may contain unescaped; names of roles contain colons.
_SAFE = ":@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One resource in one version, as a client names it."""

    group: str
    version: str
    plural: str
    kind: str = ""
    namespaced: bool = True
    verbs: tuple[str, ...] = ()
    """Known only if the resource comes from discovery."""
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
        """The path of an object, or of a collection (all namespaces if none is given)."""
        root = f"/apis/{self.group}" if self.group else "/api"
        place = f"/namespaces/{quote(namespace, safe=_SAFE)}" if namespace else ""
        path = f"{root}/{self.version}{place}/{self.plural}"
        if name:
            path += "/" + quote(name, safe=_SAFE)
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        """As Go prints a GroupVersionResource; messages of Kubernetes contain it."""
        return f"{self.group}/{self.version}, Resource={self.plural}"


_RBAC = "rbac.authorization.k8s.io"

NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = ApiResource("", "v1", "configmaps", "ConfigMap")
SECRETS = ApiResource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = ApiResource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = ApiResource("", "v1", "events", "Event")
LEASES = ApiResource("coordination.k8s.io", "v1", "leases", "Lease")
ROLES = ApiResource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = ApiResource(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = ApiResource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = ApiResource(
    _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = ApiResource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
