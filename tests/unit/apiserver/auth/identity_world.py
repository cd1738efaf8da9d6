# SPDX-License-Identifier: Apache-2.0
"""A Lister over plain dicts, and factories of RBAC objects."""

from collections import Counter
from typing import Any

from rdd.api import names
from rdd.api.types import Object
from rdd.apiserver.auth.bootstrap_policy import cluster_role_bindings, cluster_roles


class World:
    """Objects by resource, namespace and name; counts revisions like the store."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.revisions: Counter[str] = Counter()
        self.lists = 0

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        return self.objects.get((resource, namespace, name))

    def list(self, resource: str, namespace: str | None = None) -> list[Object]:
        self.lists += 1
        return [
            obj
            for (r, ns, _), obj in self.objects.items()
            if r == resource and namespace in (None, ns)
        ]

    def revision(self, resource: str) -> int:
        return self.revisions[resource]

    def put(self, resource: str, obj: Object) -> Object:
        metadata = obj["metadata"]
        self.objects[resource, metadata.get("namespace", ""), metadata["name"]] = obj
        self.revisions[resource] += 1
        return obj

    def delete(self, resource: str, namespace: str, name: str) -> None:
        del self.objects[resource, namespace, name]
        self.revisions[resource] += 1

    def account(self, name: str, namespace: str = "ns", uid: str = "account-uid") -> Object:
        metadata = {"name": name, "namespace": namespace, "uid": uid}
        return self.put("serviceaccounts", {"metadata": metadata})

    def role(self, name: str, *rules: Object, namespace: str = "") -> Object:
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        obj = {"metadata": metadata, "rules": list(rules)}
        return self.put("roles" if namespace else "clusterroles", obj)

    def bind(
        self, name: str, role: str, *subjects: Object, namespace: str = "", kind: str = ""
    ) -> Object:
        """Bind a role: a Role in a namespace by default, else a ClusterRole."""
        obj = binding(name, role, *subjects, namespace=namespace, kind=kind)
        return self.put("rolebindings" if namespace else "clusterrolebindings", obj)

    def grant(self, name: str, subject: Object, *rules: Object, namespace: str = "") -> None:
        """Create a role and its binding."""
        self.role(name, *rules, namespace=namespace)
        self.bind(name, name, subject, namespace=namespace)

    def bootstrap(self) -> "World":
        for obj in cluster_roles():
            self.put("clusterroles", obj)
        for obj in cluster_role_bindings():
            self.put("clusterrolebindings", obj)
        return self


def binding(name: str, role: str, *subjects: Object, namespace: str = "", kind: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    kind = kind or ("Role" if namespace else "ClusterRole")
    ref = {"apiGroup": names.RBAC_GROUP, "kind": kind, "name": role}
    return {"metadata": metadata, "roleRef": ref, "subjects": list(subjects)}


def rule(verbs: str, resources: str = "", group: str = "", **members: Any) -> Object:
    """Return a rule from space-separated lists."""
    made: Object = {"verbs": verbs.split()}
    if resources:
        made |= {"apiGroups": [group], "resources": resources.split()}
    return made | members


def user(name: str) -> Object:
    return {"kind": "User", "name": name, "apiGroup": names.RBAC_GROUP}


def group(name: str) -> Object:
    return {"kind": "Group", "name": name, "apiGroup": names.RBAC_GROUP}


def account(name: str, namespace: str = "") -> Object:
    subject = {"kind": "ServiceAccount", "name": name}
    return subject | ({"namespace": namespace} if namespace else {})
