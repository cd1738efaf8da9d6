# SPDX-License-Identifier: Apache-2.0
"""Conversion of custom resources between versions by a webhook.

Objects of such a CRD are stored with their apiVersion as the last member (`codec.encode` with a
tag), because a change of the storage version does not rewrite older objects. A read in another
version calls the webhook, with one ConversionReview per list, and caches the results by revision:
an object is converted once, not with every read.
"""

import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from rdd.api import errors, names
from rdd.api.objectmeta import MetadataError, decode_object_meta
from rdd.api.types import Object
from rdd.apiserver.admission.client import CallFailed, WebhookClient, WebhookEndpoint
from rdd.apiserver.http.request import SYSTEM, Request
from rdd.apiserver.state import codec
from rdd.apiserver.state.entries import CacheEntry, ObjectChange

_MAX_CACHED = 2048
_TIMEOUT_S = 30


class Converter:
    """Converts the objects of one CRD."""

    def __init__(self, spec: Mapping[str, Any], client: WebhookClient) -> None:
        webhook = spec["conversion"]["webhook"]
        self._endpoint = WebhookEndpoint.of(webhook["clientConfig"])
        cached = [v for v in webhook["conversionReviewVersions"] if v in ("v1", "v1beta1")]
        self._review_version = cached[0] if cached else "v1"
        self._kind: str = spec["names"]["kind"]
        group = spec["group"]
        self._storage = next(f"{group}/{v['name']}" for v in spec["versions"] if v.get("storage"))
        self._client = client
        self._cached: OrderedDict[tuple[str, str, int, str], CacheEntry] = OrderedDict()

    def version_of(self, entry: CacheEntry) -> str:
        """Return the apiVersion in which an entry is stored."""
        return codec.tag_of(entry.body) or self._storage

    async def convert_entries(
        self, entries: Sequence[CacheEntry], api_version: str
    ) -> list[CacheEntry]:
        """Return the entries in a version; entries in that version are passed through."""
        found: list[CacheEntry | None] = []
        wanted: list[CacheEntry] = []
        for e in entries:
            if self.version_of(e) == api_version:
                found.append(e)
                continue
            cached = self._cached.get((e.namespace, e.name, e.revision, api_version))
            found.append(cached)
            if cached is None:
                wanted.append(e)
        if not wanted:
            return [e for e in found if e is not None]
        objects = [
            {"kind": self._kind, "apiVersion": self.version_of(e), **_untagged(e)} for e in wanted
        ]
        converted = iter(await self._convert(objects, api_version))
        out: list[CacheEntry] = []
        for original, local in zip(entries, found, strict=True):
            out.append(local or self._cache(original, next(converted), api_version))
        return out

    def _cache(self, original: CacheEntry, obj: Object, api_version: str) -> CacheEntry:
        body = codec.with_revision(codec.encode(obj, tag=api_version), original.revision)
        entry = CacheEntry(original.namespace, original.name, original.revision, body)
        self._cached[(entry.namespace, entry.name, entry.revision, api_version)] = entry
        if len(self._cached) > _MAX_CACHED:
            self._cached.popitem(last=False)
        return entry

    async def convert_changes(
        self, changes: Sequence[ObjectChange], api_version: str
    ) -> list[ObjectChange]:
        """Return changes with their states in a version."""
        states = [c.entry for c in changes] + [c.old for c in changes if c.old is not None]
        done = iter(await self.convert_entries(states, api_version))
        entries = [next(done) for _ in changes]
        olds = [next(done) if c.old is not None else None for c in changes]
        return [ObjectChange(c.type, e, o) for c, e, o in zip(changes, entries, olds, strict=True)]

    async def to_storage(self, obj: Object) -> tuple[Object, str]:
        """Convert an object to the storage version; return it with that version."""
        return await self.convert(obj, self._storage), self._storage

    async def convert(self, obj: Object, api_version: str) -> Object:
        """Convert an object to another version; return itself if it is in that version."""
        if obj["apiVersion"] == api_version:
            return obj
        (converted,) = await self._convert([obj], api_version)
        return converted

    async def _convert(self, objects: list[Object], api_version: str) -> list[Object]:
        uid = str(uuid.uuid4())
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{names.EXTENSIONS_GROUP}/{self._review_version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        source = str(objects[0]["apiVersion"])
        request = Request("POST", "/convert", headers={}, user=SYSTEM)
        try:
            response_body = await self._client.call(
                self._endpoint, review, timeout_s=_TIMEOUT_S, request=request
            )
        except CallFailed as error:
            raise self._failed(source, str(error)) from error
        converted = self._check(source, response_body, uid, len(objects))
        return [
            self._merged(source, old, new, api_version)
            for old, new in zip(objects, converted, strict=True)
        ]

    def _check(self, source: str, response_body: Any, uid: str, count: int) -> list[Any]:
        response = response_body.get("response") if isinstance(response_body, dict) else None
        if not isinstance(response, dict):
            raise self._failed(source, "the response is not a ConversionReview")
        result = response.get("result")
        if not isinstance(result, dict) or result.get("status") != "Success":
            reason = result.get("message") if isinstance(result, dict) else ""
            raise self._failed(source, str(reason or "the webhook gave no reason"))
        if response.get("uid") != uid:
            raise self._failed(source, f"expected response.uid={uid}, got {response.get('uid')}")
        converted = response.get("convertedObjects")
        got = len(converted) if isinstance(converted, list) else 0
        if got != count or not isinstance(converted, list):
            raise self._failed(source, f"expected {count} converted objects, got {got}")
        return converted

    def _merged(self, source: str, old: Object, new: Any, api_version: str) -> Object:
        """Return a converted object with the metadata that a webhook may not change restored."""
        if not isinstance(new, dict):
            raise self._failed(source, "invalid converted object: not an object")
        for member, wanted in (("apiVersion", api_version), ("kind", self._kind)):
            if new.get(member) != wanted:
                raise self._failed(
                    source,
                    f"invalid converted object: expected {member} {wanted}, got {new.get(member)}",
                )
        try:
            sent, _ = decode_object_meta(new.get("metadata"))
        except MetadataError as error:
            raise self._failed(source, f"invalid metadata of object: {error}") from error
        meta = dict(old["metadata"])
        for member in ("name", "namespace", "uid"):
            if sent.get(member) != meta.get(member):
                raise self._failed(
                    source, f"invalid converted object: {member} must not be changed"
                )
        for member in ("labels", "annotations"):
            if sent.get(member):
                meta[member] = sent[member]
            else:
                meta.pop(member, None)
        return {**new, "metadata": meta}

    def _failed(self, source: str, why: str) -> errors.ApiError:
        return errors.ApiError(
            f"conversion webhook for {source}, Kind={self._kind} failed: {why}",
            code=500,
            reason="",
        )


def _untagged(entry: CacheEntry) -> Object:
    obj = entry.decode()
    obj.pop("apiVersion", None)
    return obj
