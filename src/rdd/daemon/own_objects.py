# SPDX-License-Identifier: Apache-2.0
"""The objects that a daemon writes again at each start, by their key in the store.

They hold nothing of a user's: a damaged one is removed and written again instead of being put in
quarantine, which would keep the daemon from starting.
"""

from rdd.api import names
from rdd.apiserver.auth import bootstrap_policy

_CRDS = f"/registry/{names.EXTENSIONS_GROUP}/customresourcedefinitions/"
_PREFIXES = (
    f"/registry/leases/{names.SYSTEM_NAMESPACE}/",
    f"/registry/configmaps/{names.SYSTEM_NAMESPACE}/{names.DISCOVERY_CONFIG_MAP}",
    f"/registry/configmaps/{names.SYSTEM_NAMESPACE}/{names.PROFILE_CONFIG_MAP}",
    f"/registry/{names.REGISTRATION_GROUP}/apiservices/",
    "/registry/events/",
)


def is_recreated(key: str) -> bool:
    """Return whether the daemon writes the object with this key again."""
    if key.startswith(_PREFIXES):
        return True
    if key.startswith(_CRDS):
        return key.endswith(f".{names.DOMAIN}")
    return key in {
        f"/registry/{plural}/{obj['metadata']['name']}"
        for plural, objects in (
            ("clusterroles", bootstrap_policy.cluster_roles()),
            ("clusterrolebindings", bootstrap_policy.cluster_role_bindings()),
        )
        for obj in objects
    }
