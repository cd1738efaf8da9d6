# SPDX-License-Identifier: Apache-2.0
"""The objects of a list: selectors, pages and resource versions.

Lists come from the cache, at its current revision, whatever version the client
requests ("not older than" is always true). Only two cases need an older state:
`resourceVersionMatch=Exact` and the second and later pages of a paged list,
which show the state of the first page. If nothing below the prefix has changed
since, the cache still has that state; otherwise it is read from the store.
"""

import base64
import posixpath
from dataclasses import dataclass, replace

import orjson

from rdd.api import decode, errors, fieldselectors, selectors
from rdd.apiserver.components import Core
from rdd.apiserver.http.options import ListOptions
from rdd.apiserver.http.request import Request
from rdd.apiserver.resources import Resource
from rdd.apiserver.state.cache import CacheEntry
from rdd.apiserver.state.revisions import check_not_future
from rdd.apiserver.state.watchers import ObjectSelection
from rdd.store.contract import Compacted

_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListPage:
    """The objects of a list and its metadata."""

    entries: list[CacheEntry]
    revision: int
    continue_: str = ""
    remaining: int = 0
    """The number of objects on later pages; 0 if there are none or it is unknown."""


def selection(request: Request, resource: Resource, options: ListOptions) -> ObjectSelection:
    """Return the selectors of a request, validated for the resource."""
    info = request.info
    labels = fields = None
    name = ""
    if options.label_selector.strip():
        labels = selectors.parse_label_selector(options.label_selector)
    if options.field_selector.strip():
        fields = fieldselectors.parse_field_selector(options.field_selector)
        resource.strategy.check_field_selector(fields)
        name = fields.exact_value("metadata.name") or ""
        if info.name and name != info.name:
            raise errors.BadRequest("fieldSelector metadata.name doesn't match requested name")
    if info.name:
        name = info.name  # the deprecated watch of one object
    namespace = info.namespace if resource.namespaced and info.namespace else None
    if not resource.namespaced:
        namespace = ""
    return ObjectSelection(namespace, labels, fields, name=name, resource=resource)


async def select(
    core: Core, request: Request, resource: Resource, options: ListOptions
) -> ListPage:
    """Return the objects of a list request."""
    chosen = selection(request, resource, options)
    cache = resource.cache
    version = options.resource_version
    start = ""
    if options.continue_:
        if version and version != "0":
            raise errors.BadRequest(
                "specifying resource version is not allowed when using continue"
            )
        revision, start = _read_token(options.continue_)
        if revision < 0:
            revision = core.cache.revision  # a token for the current state
    elif options.resource_version_match == "Exact":
        revision = check_not_future(core, version, is_list=True)
    else:
        if version and version != "0":
            check_not_future(core, version, is_list=True)
        revision = core.cache.revision
    if revision < cache.revision:
        entries = await _at(core, resource, chosen, revision, start)
    elif chosen.name and chosen.namespace is not None:
        one = cache.get(chosen.namespace, chosen.name)
        entries = [one] if one is not None else []
    else:
        entries = cache.entries(chosen.namespace)
    limit = 0 if version == "0" and not options.continue_ else options.limit
    if resource.converter is None:
        return _cut(entries, revision, limit, start, chosen, resource)
    if chosen.fields is not None:
        # The values of the fields are those of the requested version.
        entries = list(await resource.convert_entries(entries))
        return _cut(entries, revision, limit, start, chosen, resource)
    page = _cut(entries, revision, limit, start, chosen, resource)
    return replace(page, entries=list(await resource.convert_entries(page.entries)))


async def _at(
    core: Core, resource: Resource, chosen: ObjectSelection, revision: int, start: str
) -> list[CacheEntry]:
    cache = resource.cache
    prefix = cache.prefix
    if chosen.namespace:
        prefix = f"{prefix}{chosen.namespace}/"
    try:
        page = await core.store.scan(prefix, revision=revision)
    except Compacted as error:
        if start:
            token = _token(-1, start)
            expired = errors.Expired(_EXPIRED_TOKEN)
            expired.metadata = {"continue": token}
            raise expired from error
        raise errors.Expired(
            f"The resourceVersion for the provided list is too old: {revision}"
        ) from error
    entries = []
    for record in page.records:
        namespace, name = cache.split(record.key)
        entries.append(cache.entry(namespace, name, record.revision, record.value))
    if chosen.name and chosen.namespace is not None:
        return [e for e in entries if e.name == chosen.name]
    return entries


def _cut(
    entries: list[CacheEntry],
    revision: int,
    limit: int,
    start: str,
    chosen: ObjectSelection,
    resource: Resource,
) -> ListPage:
    """Return one page: at most `limit` selected objects from `start` on, a token if more follow.

    As in Kubernetes, any further object makes a token, even if no selected one follows; the
    number of the remaining objects is known only without selectors.
    """
    if start:
        entries = entries[_first_after(entries, start, resource) :]
    if chosen.selects_all:
        if limit <= 0 or len(entries) <= limit:
            # A copy: the cache changes its list while the response is written.
            return ListPage(entries[:], revision)
        page = entries[:limit]
        token = _token(revision, _position(page[-1], resource) + "\0")
        return ListPage(page, revision, token, len(entries) - limit)
    matches = chosen.matches
    if limit <= 0:
        return ListPage([e for e in entries if matches(e)], revision)
    page = []
    for i, entry in enumerate(entries):
        if len(page) >= limit:
            token = _token(revision, _position(entries[i - 1], resource) + "\0")
            return ListPage(page, revision, token)
        if matches(entry):
            page.append(entry)
    return ListPage(page, revision)


def _position(entry: CacheEntry, resource: Resource) -> str:
    return f"{entry.namespace}/{entry.name}" if resource.namespaced else entry.name


def _first_after(entries: list[CacheEntry], start: str, resource: Resource) -> int:
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) // 2
        if _position(entries[middle], resource) < start:
            low = middle + 1
        else:
            high = middle
    return low


def _token(revision: int, start: str) -> str:
    raw = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _read_token(text: str) -> tuple[int, str]:
    at = _illegal_at(text)
    if at is not None:
        raise _bad_token(f"illegal base64 data at input byte {at}")
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    try:
        value = decode.decode_json(raw)
    except errors.BadRequest as error:
        raise _bad_token(error.message) from None
    if not isinstance(value, dict):
        raise _bad_token("json: cannot unmarshal into Go value of type storage.continueToken")
    version, start, revision = value.get("v", ""), value.get("start"), value.get("rv")
    if version != "meta.k8s.io/v1":
        raise _bad_token(f"server does not recognize this encoded version {version}")
    if not isinstance(revision, int) or revision == 0:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {version})")
    if not start or not isinstance(start, str):
        raise _bad_token(f"encoded start key empty (version {version})")
    key = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(key) != key:
        raise _bad_token(start)
    return revision, start


def _illegal_at(text: str) -> int | None:
    """Return the position that Go reports; padding is illegal in a token, too."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for i, c in enumerate(text):
        if c not in alphabet:
            return i
    return len(text) - 1 if len(text) % 4 == 1 else None


def _bad_token(why: str) -> errors.BadRequest:
    return errors.BadRequest(f"invalid continue token: continue key is not valid: {why}")
