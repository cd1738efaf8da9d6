# SPDX-License-Identifier: Apache-2.0
"""The async client: verbs of the API on plain dicts.

Every method sends one request (lists: one per page). A failure is raised as the
class of `rdd.api.errors` for the server's Status. Only a reply with status 429 is
retried: at most 5 attempts, after the delay that the server requests, as all
Kubernetes clients do.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Literal, Self

import orjson

from rdd.api import errors
from rdd.api.mediatypes import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from rdd.api.types import Object
from rdd.client import discovery, listwatch
from rdd.client.discovery import ServerResources
from rdd.client.errors import error_of_reply, warning_text
from rdd.client.objects import Event, ObjectList, partial
from rdd.client.resources import ApiResource
from rdd.client.transport import NO_HEADERS, Call, Keep, Query, Reply, Transport, WatchRejected

PatchType = Literal["json", "merge", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]

PAGE_SIZE = 500
_MAX_ATTEMPTS = 5
_METADATA_ONLY = (
    "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1,application/json"
)
_JSON_BODY = {"Content-Type": JSON}
_PATCHES = {
    "json": {"Content-Type": JSON_PATCH},
    "merge": {"Content-Type": MERGE_PATCH},
    "strategic": {"Content-Type": STRATEGIC_MERGE_PATCH},
    "apply": {"Content-Type": APPLY_PATCH},
}


class Client:
    """Requests to one server as one user.

    `user_agent` names the program; the part before the slash becomes the field
    manager of writes that do not name one. `on_warning` is called with each
    Warning header of the server, `sleep` before a retry.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "rdd",
        on_warning: Callable[[str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.transport = transport
        self.sleep = sleep
        self._headers = {"User-Agent": user_agent}
        self._on_warning = on_warning

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.transport.close()

    # -- any path

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Reply:
        """Send any request and return the reply; a failure is raised as its ApiError."""
        call = Call(method, path, query or {}, {**self._headers, **headers}, body)
        for attempt in range(_MAX_ATTEMPTS):
            reply = await self.transport.request(call)
            if reply.status < 400:
                break
            error = _error(reply)
            wait_s = error.retry_after_s
            if reply.status != 429 or not wait_s or attempt + 1 == _MAX_ATTEMPTS:
                raise error
            await self.sleep(wait_s)
        if self._on_warning is not None:
            for name, value in reply.headers:
                if name.lower() == "warning":
                    self._on_warning(warning_text(value))
        return reply

    async def _json(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        body: object = None,
    ) -> Object:
        data = b"" if body is None else orjson.dumps(body)
        if data and "Content-Type" not in headers:
            headers = {**headers, **_JSON_BODY}
        reply = await self.request(method, path, query=query, headers=headers, body=data)
        found: Object = orjson.loads(reply.body)
        return found

    async def discover(self, known: ServerResources | None = None) -> ServerResources:
        """Return the resources of the server; `known` itself if they have not changed."""
        headers = {"Accept": discovery.AGGREGATED}
        documents = tuple(
            [(await self.request("GET", path, headers=headers)).body for path in discovery.ROOTS]
        )
        if known is not None and known.documents == documents:
            return known
        return ServerResources(
            (
                version
                for document in documents
                for version in discovery.parse_aggregated(orjson.loads(document))
            ),
            documents=documents,
        )

    # -- reading

    async def get(
        self,
        resource: ApiResource,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
        metadata_only: bool = False,
    ) -> Object:
        """Return one object. Raises NotFound."""
        headers = self._accept(metadata_only)
        obj = await self._json(
            "GET", _path(resource, namespace, name, subresource), headers=headers
        )
        return partial(obj) if metadata_only else obj

    async def list(
        self,
        resource: ApiResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> ObjectList:
        """Return all objects of a selection, fetched page by page, in one list."""
        items: list[Object] = []
        version = ""
        async for page in self.pages(
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        ):
            items += page.items
            version = page.resource_version
        return ObjectList(items, version)

    async def pages(
        self,
        resource: ApiResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> AsyncGenerator[ObjectList, None]:
        """Yield a list in pages of the same snapshot.

        Raises Expired if the server has compacted the snapshot meanwhile.
        """
        query = _query(
            labelSelector=label_selector, fieldSelector=field_selector, limit=str(page_size)
        )
        path, headers = resource.path(namespace), self._accept(metadata_only, "List")
        while True:
            found = await self._json("GET", path, query, headers)
            meta = found.get("metadata") or {}
            next_ = meta.get("continue") or ""
            items = found.get("items") or []
            if metadata_only:
                items = [partial(item) for item in items]
            elif resource.kind:
                type_ = {"kind": resource.kind, "apiVersion": resource.api_version}
                items = [{**type_, **item} for item in items]
            yield ObjectList(items, str(meta.get("resourceVersion") or ""), next_)
            if not next_:
                return
            query = {**query, "continue": [next_]}

    async def watch(
        self,
        resource: ApiResource,
        *,
        namespace: str = "",
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        with_state: bool = False,
        keep: Keep | None = None,
        timeout_s: int = 0,
    ) -> AsyncGenerator[Event, None]:
        """Yield changes after a resource version (without one: existing objects first).

        Ends when the server ends the watch. An ERROR event is raised (Expired or
        Gone: list again). `keep` gets type and object of each event before it is
        decoded and drops it by returning False; bookmarks and errors bypass it.
        `with_state`: a bookmark follows the existing objects (`Event.ends_state`).
        Use `contextlib.aclosing` to leave early.
        """
        query = _query(
            watch="true",
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
        )
        timeout_s = timeout_s or self.transport.watch_timeout_s
        if timeout_s:
            query["timeoutSeconds"] = [str(timeout_s)]
        if with_state:
            query["sendInitialEvents"], query["resourceVersionMatch"] = ["true"], ["NotOlderThan"]
        if self.transport.wants_bookmarks or with_state:
            query["allowWatchBookmarks"] = ["true"]
        headers = {**self._headers, **self._accept(metadata_only)}
        call = Call("GET", resource.path(namespace), query, headers)
        encoded = self.transport.watch(call, _filter(keep) if keep is not None else None)
        async with aclosing(encoded):
            try:
                async for event in encoded:
                    if event.type == "ERROR":
                        raise errors.from_status(orjson.loads(event.head + event.body))
                    yield Event(event.type, event, metadata_only=metadata_only)
            except WatchRejected as rejected:
                raise _error(rejected.reply) from None

    def list_and_watch(
        self,
        resource: ApiResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        keep: Keep | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield the objects of a selection, then their changes; see `rdd.client.listwatch`."""
        return listwatch.list_and_watch(
            self,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
            keep=keep,
        )

    # -- writing

    async def create(
        self,
        resource: ApiResource,
        obj: Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        field_validation: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Create an object; with `name` and `subresource`, a subresource such as a token."""
        namespace = namespace or _namespace(obj)
        query = _write_query(field_manager, field_validation, dry_run)
        body = _typed(resource, obj) if not subresource else obj
        return await self._json(
            "POST", resource.path(namespace, name, subresource), query, body=body
        )

    async def update(
        self,
        resource: ApiResource,
        obj: Object,
        *,
        subresource: str = "",
        field_manager: str = "",
        field_validation: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Replace an object. Raises Conflict if its resourceVersion is stale."""
        path = _path(resource, _namespace(obj), obj["metadata"]["name"], subresource)
        query = _write_query(field_manager, field_validation, dry_run)
        return await self._json("PUT", path, query, body=_typed(resource, obj))

    async def patch(
        self,
        resource: ApiResource,
        name: str,
        body: object,
        *,
        namespace: str = "",
        type_: PatchType = "merge",
        subresource: str = "",
        field_manager: str = "",
        field_validation: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Patch an object: a JSON patch (list of operations), a merge or a strategic merge patch.

        A resourceVersion in the patch makes it conditional.
        """
        path = _path(resource, namespace, name, subresource)
        query = _write_query(field_manager, field_validation, dry_run)
        return await self._json("PATCH", path, query, _PATCHES[type_], body)

    async def apply(
        self,
        resource: ApiResource,
        obj: Object,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
        field_validation: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Apply an object server-side: the given fields become owned by `field_manager`."""
        path = _path(resource, _namespace(obj), obj["metadata"]["name"], subresource)
        query = _write_query(field_manager, field_validation, dry_run)
        if force:
            query["force"] = ["true"]
        return await self._json("PATCH", path, query, _PATCHES["apply"], _typed(resource, obj))

    async def delete(
        self,
        resource: ApiResource,
        name: str,
        *,
        namespace: str = "",
        propagation_policy: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Delete an object; returns a Status, or the object while it has finalizers.

        `uid` and `resource_version` are preconditions. Raises Conflict if they fail.
        """
        body = _delete_options(propagation_policy, uid, resource_version, grace_period_s, dry_run)
        return await self._json("DELETE", _path(resource, namespace, name), body=body)

    async def delete_collection(
        self,
        resource: ApiResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        propagation_policy: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete every object of a selection."""
        query = _query(labelSelector=label_selector, fieldSelector=field_selector)
        body = _delete_options(propagation_policy, "", "", None, dry_run)
        await self.request(
            "DELETE",
            resource.path(namespace),
            query=query,
            headers=_JSON_BODY,
            body=orjson.dumps(body),
        )

    def _accept(self, metadata_only: bool, list_: str = "") -> Mapping[str, str]:
        # In-process, bytes are free, and leaving members out costs the server work.
        if not metadata_only or not self.transport.saves_bytes:
            return NO_HEADERS
        return {"Accept": _METADATA_ONLY.format(list=list_)}


def _error(reply: Reply) -> errors.ApiError:
    retry_after = next((v for name, v in reply.headers if name.lower() == "retry-after"), "")
    return error_of_reply(reply.status, reply.body, retry_after=retry_after)


def _filter(keep: Keep) -> Keep:
    def passes(type_: str, body: bytes) -> bool:
        return keep(type_, body) or type_ in ("BOOKMARK", "ERROR")

    return passes


def _query(**values: str) -> Query:
    return {name: [value] for name, value in values.items() if value}


def _write_query(field_manager: str, field_validation: str, dry_run: bool) -> Query:
    return _query(
        fieldManager=field_manager,
        fieldValidation=field_validation,
        dryRun="All" if dry_run else "",
    )


def _delete_options(
    policy: str | None, uid: str, resource_version: str, grace_period_s: int | None, dry_run: bool
) -> Object:
    options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in preconditions.items() if value}
    if preconditions:
        options["preconditions"] = preconditions
    if policy:
        options["propagationPolicy"] = policy
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace") or "")


def _path(resource: ApiResource, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of one object; without a name it would be the whole collection."""
    if not name:
        raise errors.BadRequest("resource name may not be empty")
    return resource.path(namespace, name, subresource)


def _typed(resource: ApiResource, obj: Object) -> Object:
    """Add kind and apiVersion, which callers may leave out."""
    if obj.get("kind") and obj.get("apiVersion"):
        return obj
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
