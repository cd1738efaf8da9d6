# SPDX-License-Identifier: Apache-2.0
"""The objects of a namespace: read for a snapshot, and written back.

Not saved are what only mirrors something else or belongs to a machine (groups `containers` and
`lima`), events, leases, tokens, objects that the App or a LimaVM owns, and every status.

A restore tries all writes as a dry run first, then writes owners before what they own, because
references carry uids. If a write fails nevertheless, those before it are taken back. Objects that
were created since are kept.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.client.resources import NAMESPACES
from rdd.host.errors import HostError
from rdd.runtime import controller_of, is_deleting

_SKIPPED_GROUPS: Final = frozenset(
    {names.CONTAINERS_GROUP, names.LIMA_GROUP, names.EVENTS_GROUP, names.COORDINATION_GROUP}
)
_SKIPPED: Final = frozenset({("", "events"), (names.RDD_GROUP, "checkouts")})
_VERBS: Final = frozenset({"list", "create", "update", "delete"})
_OF_MACHINES: Final = (names.APP_GROUP, names.LIMA_GROUP)
_TOKEN: Final = "kubernetes.io/service-account-token"
_KEPT_METADATA: Final = ("name", "labels", "annotations", "finalizers", "ownerReferences")


async def read(client: Client, namespace: str) -> list[Object]:
    """Return the objects of a namespace. Raises HostError if it does not exist."""
    try:
        await client.get(NAMESPACES, namespace)
    except errors.NotFound:
        raise HostError(f'there is no namespace "{namespace}"') from None
    found: list[Object] = []
    for (group, plural), resource in (await client.discover()).preferred().items():
        if not resource.namespaced or not _VERBS.issubset(resource.verbs):
            continue
        if group in _SKIPPED_GROUPS or (group, plural) in _SKIPPED:
            continue
        listed = await client.list(resource, namespace=namespace)
        found += [_saved(resource, obj) for obj in listed.items if _is_saved(obj)]
    return found


def _is_saved(obj: Object) -> bool:
    owner = controller_of(obj)
    group = str((owner or {}).get("apiVersion", "")).partition("/")[0]
    is_own = obj["metadata"]["name"] == names.ROOT_CA_CONFIG_MAP or obj.get("type") == _TOKEN
    return not (is_deleting(obj) or group in _OF_MACHINES or is_own)


def _saved(resource: ApiResource, obj: Object) -> Object:
    metadata = {key: obj["metadata"][key] for key in _KEPT_METADATA if key in obj["metadata"]}
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    return {
        "uid": obj["metadata"]["uid"],
        "object": {
            **rest,
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
        },
    }


async def write(client: Client, namespace: str, saved: Sequence[Object]) -> str:
    """Make the objects of a namespace those of a snapshot; return what was done.

    Raises HostError or ApiError, and then everything is as it was before.
    """
    resources = await client.discover()
    writes = []
    for one in _owners_first(saved):
        obj = one["object"]
        resource = resources.by_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise HostError(f"the kind {obj['kind']} of {obj['apiVersion']} is not installed")
        writes.append(_Write(client, resource, one, namespace))
    is_new = await _create_namespace(client, namespace)
    uids: dict[str, str] = {}
    done: list[_Write] = []
    try:
        for each in writes:
            await each.run({}, dry_run=True)
        for each in writes:
            uids[each.old_uid] = await each.run(uids)
            done.append(each)
    except (errors.ApiError, HostError):
        for each in reversed(done):
            await each.revert()
        if is_new:
            await client.delete(NAMESPACES, namespace)
        raise
    return f'{len(done)} objects of the namespace "{namespace}" have been restored'


async def _create_namespace(client: Client, name: str) -> bool:
    try:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    except errors.AlreadyExists:
        return False
    return True


def _owners_first(saved: Sequence[Object]) -> list[Object]:
    """Return saved objects in an order in which every owner precedes what it owns."""
    by_uid = {one["uid"]: one for one in saved}
    ordered: dict[str, Object] = {}
    for one in saved:
        pending, path = [one], set()
        while pending:
            now = pending[-1]
            path.add(now["uid"])
            owners = [
                by_uid[ref["uid"]]
                for ref in now["object"]["metadata"].get("ownerReferences") or ()
                if ref["uid"] in by_uid and ref["uid"] not in ordered and ref["uid"] not in path
            ]
            if owners:
                pending += owners
            else:
                ordered.setdefault(now["uid"], pending.pop())
    return list(ordered.values())


class _Write:
    """One object that is created or replaced."""

    def __init__(
        self, client: Client, resource: ApiResource, saved: Object, namespace: str
    ) -> None:
        self._client = client
        self._resource = resource
        self._object = saved["object"]
        self._namespace = namespace
        self.old_uid = str(saved["uid"])
        self._before: Object | None = None
        self._written: Object = {}

    async def run(self, uids: Mapping[str, str], *, dry_run: bool = False) -> str:
        """Write the object and return its uid; `uids` has the new one of each owner."""
        metadata = {**self._object["metadata"], "namespace": self._namespace}
        references = metadata.pop("ownerReferences", ())
        kept = [{**ref, "uid": uids[ref["uid"]]} for ref in references if ref["uid"] in uids]
        obj = {**self._object, "metadata": metadata}
        if kept:
            metadata["ownerReferences"] = kept
        self._before = await self._present()
        if self._before is None:
            self._written = await self._client.create(
                self._resource, obj, namespace=self._namespace, dry_run=dry_run
            )
        else:
            metadata["resourceVersion"] = self._before["metadata"]["resourceVersion"]
            self._written = await self._client.update(self._resource, obj, dry_run=dry_run)
        return str(self._written["metadata"]["uid"])

    async def _present(self) -> Object | None:
        try:
            return await self._client.get(
                self._resource, self._object["metadata"]["name"], namespace=self._namespace
            )
        except errors.NotFound:
            return None

    async def revert(self) -> None:
        """Take the write back, unless the object has changed again."""
        metadata = self._written["metadata"]
        try:
            if self._before is None:
                await self._client.delete(
                    self._resource,
                    metadata["name"],
                    namespace=self._namespace,
                    uid=metadata["uid"],
                )
            else:
                version = {"resourceVersion": metadata["resourceVersion"]}
                before = {**self._before, "metadata": {**self._before["metadata"], **version}}
                await self._client.update(self._resource, before)
        except (errors.NotFound, errors.Conflict):
            pass
