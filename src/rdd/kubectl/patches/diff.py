# SPDX-License-Identifier: Apache-2.0
"""The patch between two or three states of an object, of a type that its resource supports."""

from rdd.api import names
from rdd.api.mediatypes import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from rdd.api.mergepatch import create_merge_patch
from rdd.api.types import Object
from rdd.client.resources import ApiResource
from rdd.kubectl.openapi import OpenApi
from rdd.kubectl.patches import threeway
from rdd.kubectl.session import Session

# The groups of Kubernetes itself. All other groups are custom resources or aggregated
# servers, which do not support strategic merge patches.
_BUILT_IN = frozenset((
    "", "apps", "autoscaling", "batch", "extensions", "policy",
    names.ADMISSION_GROUP, names.AUTHENTICATION_GROUP, names.AUTHORIZATION_GROUP,
    names.COORDINATION_GROUP, names.EVENTS_GROUP, names.EXTENSIONS_GROUP, names.RBAC_GROUP,
    names.REGISTRATION_GROUP, "certificates.k8s.io", "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io",
    "node.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
    "storagemigration.k8s.io",
))  # fmt: skip


def is_built_in(resource: ApiResource) -> bool:
    """Return whether a resource supports strategic merge patches."""
    return resource.group in _BUILT_IN


def three_way(
    session: Session, resource: ApiResource, original: Object, modified: Object, current: Object
) -> tuple[str, Object]:
    """Return the content type and the patch of client-side apply."""
    if not is_built_in(resource):
        return MERGE_PATCH, threeway.json_merge_patch(original, modified, current)
    patch = threeway.strategic_patch(original, modified, current, _node(session, resource))
    return STRATEGIC_MERGE_PATCH, patch


def two_way(
    session: Session, resource: ApiResource, old: Object, new: Object
) -> tuple[str, Object]:
    """Return the content type and the patch from one state to another."""
    if not is_built_in(resource):
        return MERGE_PATCH, create_merge_patch(old, new)
    return STRATEGIC_MERGE_PATCH, threeway.strategic_diff(old, new, _node(session, resource))


def _node(session: Session, resource: ApiResource) -> threeway.SchemaNode:
    openapi = OpenApi(session, resource)
    return threeway.SchemaNode(openapi, lambda: openapi.root)
