# SPDX-License-Identifier: Apache-2.0
"""The objects of a list: selectors, pages and resource versions.

Lists come from the cache, at its current revision, whatever version the client
requests ("not older than" is always true). Only two cases need an older state:
`resourceVersionMatch=Exact` and the second and later pages of a paged list,
which show the state of the first page. If nothing below the prefix has changed
since, the cache still has that state; otherwise it is read from the store.

A page costs its own size, not that of the resource. Where a selector has to look at every
object, other requests run in between (`PAUSE_AFTER`).
"""

import asyncio
import base64
import posixpath
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import orjson

from rdd.api import decode, errors, fieldselectors, selectors
from rdd.apiserver.components import Core
from rdd.apiserver.http.options import ListOptions
from rdd.apiserver.http.request import Request
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import codec
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.state.ordered import position
from rdd.apiserver.state.revisions import check_not_future
from rdd.apiserver.state.selection import ObjectSelection
from rdd.store.contract import Compacted

PAUSE_AFTER = 1000
"""Objects that a selector of few terms tests without a pause: about a millisecond."""
_PAUSE_AFTER_TERMS = 20_000
"""Terms that are tested without a pause."""
_STORE_PAGE = 1000

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
    start, left = "", 0
    if options.continue_:
        revision, start, left = _read_token(options.continue_)
        if version and version != "0":
            raise errors.BadRequest(
                "specifying resource version is not allowed when using continue"
            )
        if revision < 0:
            revision = core.cache.revision  # a token for the current state
    elif options.resource_version_match == "Exact":
        revision = check_not_future(core, version, is_list=True)
    else:
        if version and version != "0":
            check_not_future(core, version, is_list=True)
        revision = core.cache.revision
    limit = 0 if version == "0" and not options.continue_ else options.limit
    wanted = _Wanted(resource, chosen, revision, start, max(limit, 0))
    if revision < cache.revision:
        return await _converted(wanted, await _cut(wanted, _at(core, wanted), left))
    if resource.converter is not None and chosen.fields is not None:
        # The values of the fields are those of the requested version.
        entries = await resource.convert_entries(_current(wanted))
        return await _cut(wanted, _in_chunks(chosen, list(entries)), 0)
    if chosen.selects_all and limit > 0:
        page = _first(wanted)
    elif chosen.selects_all:
        page = ListPage(_current(wanted), revision)
    else:
        page = await _cut(wanted, _in_chunks(chosen, _current(wanted)), 0)
    return await _converted(wanted, page)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a list asks for."""

    resource: Resource
    chosen: ObjectSelection
    revision: int
    start: str
    """The position of the first object, as in a token; empty: from the beginning."""
    limit: int
    """0: no limit."""

    @property
    def low(self) -> str:
        """The first position in the order of the cache."""
        if not self.start or self.resource.namespaced:
            return self.start
        return f"/{self.start}"

    def token(self, last: CacheEntry, left: int = 0) -> str:
        """Return the token of the page behind an object."""
        return _token(self.revision, _position(last, self.resource) + "\0", left)


async def _converted(wanted: _Wanted, page: ListPage) -> ListPage:
    if wanted.resource.converter is None:
        return page
    return replace(page, entries=list(await wanted.resource.convert_entries(page.entries)))


def _current(wanted: _Wanted) -> list[CacheEntry]:
    """Return the objects of the cache among which the selected ones are."""
    chosen, cache = wanted.chosen, wanted.resource.cache
    if not chosen.name:
        return cache.page(chosen.namespace, wanted.low, 0)
    if chosen.namespace is None:
        found = cache.named(chosen.name)
    else:
        one = cache.get(chosen.namespace, chosen.name)
        found = [one] if one is not None else []
    return [e for e in found if position(e) >= wanted.low]


def _first(wanted: _Wanted) -> ListPage:
    """Return a page of all objects of a namespace or resource."""
    cache, namespace, limit = wanted.resource.cache, wanted.chosen.namespace, wanted.limit
    page = cache.page(namespace, wanted.low, limit)
    if len(page) < limit:
        return ListPage(page, wanted.revision)
    left = cache.count_from(namespace, wanted.low) - limit
    if not left:
        return ListPage(page, wanted.revision)
    return ListPage(page, wanted.revision, wanted.token(page[-1], left), left)


async def _in_chunks(
    chosen: ObjectSelection, entries: list[CacheEntry]
) -> AsyncIterator[list[CacheEntry]]:
    size = max(min(PAUSE_AFTER, _PAUSE_AFTER_TERMS // max(chosen.terms, 1)), 1)
    for i in range(0, len(entries), size):
        if i:
            await asyncio.sleep(0)
        yield entries[i : i + size]


async def _at(core: Core, wanted: _Wanted) -> AsyncIterator[list[CacheEntry]]:
    """Yield the objects of an old revision, from the store."""
    cache, start = wanted.resource.cache, wanted.start
    prefix = cache.prefix
    if wanted.chosen.namespace:
        prefix = f"{prefix}{wanted.chosen.namespace}/"
    after = (cache.prefix + start).removesuffix("\0") if start else ""
    size = min(wanted.limit + 1 if wanted.limit else _STORE_PAGE, _STORE_PAGE)
    more = True
    while more:
        try:
            page = await core.store.scan(prefix, revision=wanted.revision, after=after, limit=size)
        except Compacted as error:
            raise _expired(wanted) from error
        more, after = page.more, page.after
        if page.records:
            yield [
                cache.entry(*cache.split(r.key), r.revision, r.value)
                for r in page.records
                if codec.is_object(r.key.rpartition("/")[2], r.value)
            ]


def _expired(wanted: _Wanted) -> errors.Expired:
    if not wanted.start:
        return errors.Expired(
            f"The resourceVersion for the provided list is too old: {wanted.revision}"
        )
    expired = errors.Expired(_EXPIRED_TOKEN)
    expired.metadata = {"continue": _token(-1, wanted.start)}
    return expired


async def _cut(wanted: _Wanted, chunks: AsyncIterator[list[CacheEntry]], left: int) -> ListPage:
    """Return one page: at most `limit` selected objects, a token if more follow.

    As in Kubernetes, any further object makes a token, even if no selected one follows; the
    number of the remaining objects is known only without selectors. `left` is the number of
    objects that the token of this page has counted.
    """
    chosen, limit = wanted.chosen, wanted.limit
    page: list[CacheEntry] = []
    last: CacheEntry | None = None
    async for chunk in chunks:
        if not limit:
            page += chunk if chosen.selects_all else filter(chosen.matches, chunk)
            continue
        for entry in chunk:
            if len(page) >= limit:
                assert last is not None
                left = max(left - limit, 0) if chosen.selects_all else 0
                return ListPage(page, wanted.revision, wanted.token(last, left), left)
            if chosen.matches(entry):
                page.append(entry)
            last = entry
    return ListPage(page, wanted.revision)


def _position(entry: CacheEntry, resource: Resource) -> str:
    return f"{entry.namespace}/{entry.name}" if resource.namespaced else entry.name


def _token(revision: int, start: str, left: int = 0) -> str:
    value = {"v": "meta.k8s.io/v1", "rv": revision, "start": start}
    if left:
        value["left"] = left  # counting again at an old revision would read all of its keys
    raw = orjson.dumps(value)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _read_token(text: str) -> tuple[int, str, int]:
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
    left = value.get("left")
    return revision, start, left if isinstance(left, int) and left > 0 else 0


def _illegal_at(text: str) -> int | None:
    """Return the position that Go reports; padding is illegal in a token, too."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for i, c in enumerate(text):
        if c not in alphabet:
            return i
    return len(text) - 1 if len(text) % 4 == 1 else None


def _bad_token(why: str) -> errors.BadRequest:
    return errors.BadRequest(f"invalid continue token: continue key is not valid: {why}")
