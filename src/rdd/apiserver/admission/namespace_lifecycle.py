# SPDX-License-Identifier: Apache-2.0
"""NamespaceLifecycle: rejects creates in a missing or terminating namespace.

The plugin checks every create in a namespace against the server's cache, which is never behind the
store, so there is no race.
"""

from rdd.api import errors, names
from rdd.apiserver.admission.chain import CREATE, DELETE, AdmissionAttributes
from rdd.apiserver.state.cache import ResourceCache

IMMORTAL = frozenset(
    {names.DEFAULT_NAMESPACE, names.KUBE_SYSTEM_NAMESPACE, names.KUBE_PUBLIC_NAMESPACE}
)


class NamespaceLifecycle:
    """The admission plugin NamespaceLifecycle."""

    def __init__(self, namespaces: ResourceCache) -> None:
        self._namespaces = namespaces

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        """Return whether a write needs a check.

        These are creates in a missing or terminating namespace and deletes of protected
        namespaces. The common case, an active namespace, is decided here without awaiting.
        """
        if not mutating:
            return False
        if attributes.operation == CREATE:
            if not attributes.namespace or attributes.resource.plural == "namespaces":
                return False
            entry = self._namespaces.get("", attributes.namespace)
            return entry is None or b'"deletionTimestamp"' in entry.body
        return (
            attributes.operation == DELETE
            and attributes.resource.plural == "namespaces"
            and not attributes.resource.group
            and attributes.name in IMMORTAL
        )

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Reject the write, unless the decoded namespace is not terminating."""
        resource = attributes.resource
        if attributes.operation == DELETE:
            raise errors.Forbidden.to_object(
                resource.plural,
                resource.group,
                attributes.name,
                "this namespace may not be deleted",
            )
        entry = self._namespaces.get("", attributes.namespace)
        if entry is None:
            if (
                self._namespaces.damaged
                and self._namespaces.key("", attributes.namespace) in self._namespaces.damaged
            ):
                return  # it exists, though it is not readable
            raise errors.NotFound.of("namespaces", "", attributes.namespace)
        if not entry.decode()["metadata"].get("deletionTimestamp"):
            return
        if attributes.resource.plural == "localsubjectaccessreviews":
            return
        error = errors.Forbidden.to_object(
            resource.plural,
            resource.group,
            attributes.name,
            f"unable to create new content in namespace {attributes.namespace} "
            "because it is being terminated",
        )
        assert error.details is not None
        error.details["causes"] = [
            {
                "reason": names.NAMESPACE_TERMINATING,
                "message": f"namespace {attributes.namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise error

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Do nothing: the mutating phase decides, before defaults and webhooks."""
