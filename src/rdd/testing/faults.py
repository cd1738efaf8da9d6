# SPDX-License-Identifier: Apache-2.0
"""Fault injection: failures of a busy, restarting or distant API server.

`Faults` wraps a server. A request that matches a fault gets the response of the
fault instead of (or around) the real one; all other requests, and those that
the server makes itself, are unaffected. Faults are matched in the order they
were added; each applies to `n` requests.

Faults can be added from any thread while the server runs: the tuple of faults is
replaced, never changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Self, TypedDict, Unpack

from rdd.api import errors
from rdd.apiserver.http import responses
from rdd.apiserver.http.request import (
    SYSTEM,
    AnyResponse,
    Request,
    Response,
    ResponseWriter,
    Stream,
)
from rdd.apiserver.state import watchers
from rdd.testing.watch_faults import break_after, slow_down

Handle = Callable[[Request], Awaitable[AnyResponse]]
Action = Callable[[Request, Handle], Awaitable[AnyResponse]]


class Where(TypedDict, total=False):
    """The requests that a fault applies to; an omitted key matches all."""

    verb: str | Iterable[str]
    """A Kubernetes verb (get, list, watch, create, update, patch, delete, …) or several."""
    resource: str
    """A plural, or `plural.group`."""
    name: str
    namespace: str
    subresource: str
    """Empty: the object itself."""


class Fault:
    """One fault, with the requests it applies to and their count.

    As a context manager it is removed at the end of the block.
    """

    def __init__(
        self,
        owner: "Faults",
        action: Action,
        *,
        n: int | None,
        where: Where,
        when: Callable[[Request], bool] | None = None,
    ) -> None:
        self._owner = owner
        self.action = action
        self.remaining = n
        """The number of requests left; None: all, until the fault is removed."""
        self.hits = 0
        """The number of affected requests."""
        verb = where.get("verb")
        self._verbs = None if verb is None else {verb} if isinstance(verb, str) else set(verb)
        self._resource, _, self._group = where.get("resource", "").partition(".")
        self._where = where
        self._when = when

    def matches(self, request: Request) -> bool:
        """Return whether the fault applies to a request."""
        info, where = request.info, self._where
        return (
            self.remaining != 0
            and info.is_resource
            and (self._verbs is None or info.verb in self._verbs)
            and (not self._resource or info.resource == self._resource)
            and (not self._group or info.group == self._group)
            and where.get("name", info.name) == info.name
            and where.get("namespace", info.namespace) == info.namespace
            and where.get("subresource", info.subresource) == info.subresource
            and (self._when is None or self._when(request))
        )

    def count(self) -> None:
        """Count an affected request."""
        self.hits += 1
        if self.remaining is not None:
            self.remaining -= 1

    def remove(self) -> None:
        """Remove the fault from its server."""
        self._owner.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Faults:
    """The faults of one server.

    Every method that adds a fault returns the `Fault`; its arguments are a
    selection (`Where`) and `n`, the number of requests to affect (None: all,
    until the fault is removed).
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._faults: tuple[Fault, ...] = ()

    async def handle(self, request: Request) -> AnyResponse:
        """Respond to a request; apply the first fault that matches."""
        if request.user is not SYSTEM and request.depth == 0:
            for fault in self._faults:
                if fault.matches(request):
                    fault.count()
                    return await fault.action(request, self._handle)
        return await self._handle(request)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults = ()

    def remove(self, fault: Fault) -> None:
        """Remove one fault; ignore one that is already removed."""
        self._faults = tuple(f for f in self._faults if f is not fault)

    def add(
        self,
        action: Action,
        n: int | None = 1,
        *,
        when: Callable[[Request], bool] | None = None,
        **where: Unpack[Where],
    ) -> Fault:
        """Add a custom fault: `action(request, handle)` returns the response."""
        fault = Fault(self, action, n=n, where=where, when=when)
        self._faults = (*self._faults, fault)
        return fault

    # -- responses

    def conflict(self, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """Return 409 Conflict for updates and patches, as after a concurrent write."""

        def failure(request: Request) -> errors.ApiError:
            info = request.info
            return errors.Conflict.of(info.resource, info.group, info.name)

        where.setdefault("verb", ("update", "patch"))
        return self.add(_failing(failure), n, **where)

    def too_many(self, n: int | None = 1, *, retry_after: int = 1, **where: Unpack[Where]) -> Fault:
        """Return 429 TooManyRequests with Retry-After (seconds; 0: without the header)."""
        failure = errors.TooManyRequests(
            "Too many requests, please try again later.", retry_after_s=retry_after
        )
        return self.add(_failing(lambda request: failure), n, **where)

    def error(
        self,
        status: int = 500,
        n: int | None = 1,
        *,
        reason: str = "",
        message: str = "injected failure",
        **where: Unpack[Where],
    ) -> Fault:
        """Return any failure Status; the default reason follows from the status."""
        failure = errors.from_status({"code": status, "reason": reason, "message": message})
        failure.reason = reason or type(failure).reason
        return self.add(_failing(lambda request: failure), n, **where)

    def delay(self, delay_s: float, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """Delay the correct response."""

        async def act(request: Request, handle: Handle) -> AnyResponse:
            await asyncio.sleep(delay_s)
            return await handle(request)

        return self.add(act, n, **where)

    def lose_answer(self, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """Execute the request, then break the connection before the response."""

        async def act(request: Request, handle: Handle) -> AnyResponse:
            await handle(request)
            return Stream(_break, length=1)

        return self.add(act, n, **where)

    # -- lists and watches

    def gone(self, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """Return 410: an ERROR event for a watch (as in Kubernetes), Expired for an old list.

        The fault applies only to lists with `continue` or a resourceVersion:
        clients react to 410 with a list that has neither.
        """

        async def act(request: Request, handle: Handle) -> AnyResponse:
            if request.info.verb == "list":
                return responses.error(request, errors.Expired(_EXPIRED_LIST))
            version = request.first("resourceVersion") or "0"
            line = watchers.error_line(errors.Expired(f"too old resource version: {version}"))
            return Stream(lambda writer: writer.write(line))

        where.setdefault("verb", ("watch", "list"))
        return self.add(act, n, when=_needs_history, **where)

    def slow_watch(self, delay_s: float, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """Delay each event of watches opened from now on."""
        return self._watch(lambda stream: slow_down(stream, delay_s), n, where)

    def drop_watch(self, n: int | None = 1, *, after: int = 0, **where: Unpack[Where]) -> Fault:
        """Break watches opened from now on after some events, without an end of stream."""
        return self._watch(lambda stream: break_after(stream, after), n, where)

    def _watch(self, wrap: Callable[[Stream], Stream], n: int | None, where: Where) -> Fault:
        async def act(request: Request, handle: Handle) -> AnyResponse:
            response = await handle(request)
            return wrap(response) if isinstance(response, Stream) else response

        where["verb"] = "watch"
        return self.add(act, n, **where)


_EXPIRED_LIST = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter."
)


def _failing(failure: Callable[[Request], errors.ApiError]) -> Action:
    async def act(request: Request, handle: Handle) -> Response:
        return responses.error(request, failure(request))

    return act


def _needs_history(request: Request) -> bool:
    return (
        request.info.verb == "watch"
        or bool(request.first("continue"))
        or request.first("resourceVersion") not in ("", "0")
    )


async def _break(writer: ResponseWriter) -> None:
    raise ConnectionResetError("injected fault: the response is lost")
