# SPDX-License-Identifier: Apache-2.0
"""Who may save and restore what: the user who asks, not the controller that does it.

The controller of Snapshots reads and writes with the rights of the daemon. Without a check, a user
who may only create and annotate Snapshots could write any object of a saved namespace, or read its
Secrets from a copy under another name. So both requests need what they are about:

| scope | to create a Snapshot, or to request its restore | with `restoreAs`, in addition |
|---|---|---|
| App | `update` of `apps` | `create` of `limavms` |
| LimaVM | `update` of `limavms` in its namespace | `create` of `limavms` there |
| Namespace | every verb on every resource in it | the same in the new namespace |
| Instance | every verb on every resource | refused by the controller |

The scope is part of the Snapshot and cannot change; the controller restores no content of another
one.
"""

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.admission.chain import CREATE, UPDATE, AdmissionAttributes
from rdd.apiserver.auth.authorizer import AuthorizationAttributes, Authorizer

_ALL = "*"
_SNAPSHOTS = (names.RDD_GROUP, "snapshots")


class SnapshotAccess:
    """The admission plugin."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        resource = attributes.resource
        return (
            not mutating
            and (resource.group, resource.plural) == _SNAPSHOTS
            and not attributes.subresource
            and attributes.operation in (CREATE, UPDATE)
        )

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Raise Forbidden unless the user may do what the request asks for."""
        new, old = attributes.object or {}, attributes.old_object
        request = _restore_request(new)
        is_restore = bool(request[0]) and request != _restore_request(old or {})
        if old is not None and not is_restore:
            return
        scope = new["spec"]["scope"]
        kind, name = scope["kind"], str(scope.get("name") or "")
        if kind in ("Namespace", "Instance"):
            self._require(attributes, _ALL, _ALL, _ALL, name)
        elif kind == "App":
            self._require(attributes, "update", names.APP_GROUP, "apps", "", names.APP_NAME)
        else:
            namespace = str(scope.get("namespace") or "")
            self._require(attributes, "update", names.LIMA_GROUP, "limavms", namespace, name)
        if is_restore and (new_name := request[1]):
            if kind in ("Namespace", "Instance"):
                self._require(attributes, _ALL, _ALL, _ALL, new_name)
            else:
                namespace = str(scope.get("namespace") or "")
                self._require(attributes, "create", names.LIMA_GROUP, "limavms", namespace)

    def _require(
        self,
        attributes: AdmissionAttributes,
        verb: str,
        group: str,
        plural: str,
        namespace: str,
        name: str = "",
    ) -> None:
        user = attributes.user
        asked = AuthorizationAttributes(
            user, verb, group=group, version=_ALL, resource=plural, namespace=namespace, name=name
        )
        if self._authorizer.authorize(asked).allowed:
            return
        what = "every verb on every resource" if verb == _ALL else f'"{verb}" of {plural}.{group}'
        where = f'in the namespace "{namespace}"' if namespace else ""
        raise errors.Forbidden.to_object(
            attributes.resource.plural,
            attributes.resource.group,
            attributes.name,
            f'to save or restore this, the user "{user.name}" needs {what} {where}'.rstrip(),
        )


def _restore_request(obj: Object) -> tuple[str, str]:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return (
        str(annotations.get(names.SNAPSHOT_RESTORE) or ""),
        str(annotations.get(names.SNAPSHOT_RESTORE_AS) or ""),
    )
