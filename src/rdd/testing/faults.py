# SPDX-License-Identifier: Apache-2.0
"""Faults on demand: what a busy, restarting or far-away API server does to its clients.

`Faults` stands in front of a server. A request that matches a fault gets the
fault's answer instead of (or around) the real one; everything else passes
untouched, and so do the requests the server makes to itself. Faults are
matched in the order they were added; each strikes `n` requests and is then
spent.

They can be added from any thread while the server runs: the tuple of faults is
replaced, never changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
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
from rdd.testing.disturbances import cut, slowed

Handle = Callable[[Request], Awaitable[AnyResponse]]
Action = Callable[[Request, Handle], Awaitable[AnyResponse]]


class Where(TypedDict, total=False):
    """Which requests a fault strikes; what is left out matches anything."""

    verb: str | Iterable[str]
    """A Kubernetes verb (get, list, watch, create, update, patch, delete, …) or several."""
    resource: str
    """A plural, or `plural.group`."""
    name: str
    namespace: str
    subresource: str
    """Empty: the object itself."""


class Fault:
    """One fault: which requests it strikes, how many more, how many so far.

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
        """How many more requests it will strike; None: all, until it is removed."""
        self.hits = 0
        """How many requests it has struck."""
        verb = where.get("verb")
        self._verbs = None if verb is None else {verb} if isinstance(verb, str) else set(verb)
        self._resource, _, self._group = where.get("resource", "").partition(".")
        self._where = where
        self._when = when

    def matches(self, request: Request) -> bool:
        """Whether the request is one of those meant."""
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

    def strike(self) -> None:
        """Count one request."""
        self.hits += 1
        if self.remaining is not None:
            self.remaining -= 1

    def remove(self) -> None:
        """Strike no more."""
        self._owner.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


class Faults:
    """The faults of one server.

    Every method that adds one returns the `Fault`, and takes a selection
    (`Where`) and `n`, the number of requests to strike; None strikes until the
    fault is removed.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._faults: tuple[Fault, ...] = ()

    async def handle(self, request: Request) -> AnyResponse:
        """Answer a request, with the first fault that matches."""
        if request.user is not SYSTEM and request.depth == 0:
            for fault in self._faults:
                if fault.matches(request):
                    fault.strike()
                    return await fault.action(request, self._handle)
        return await self._handle(request)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults = ()

    def remove(self, fault: Fault) -> None:
        """Remove one fault; one that is not there is no error."""
        self._faults = tuple(f for f in self._faults if f is not fault)

    def add(
        self,
        action: Action,
        n: int | None = 1,
        *,
        when: Callable[[Request], bool] | None = None,
        **where: Unpack[Where],
    ) -> Fault:
        """A fault of one's own: `action(request, handle)` gives the answer."""
        fault = Fault(self, action, n=n, where=where, when=when)
        self._faults = (*self._faults, fault)
        return fault

    # -- answers

    def conflict(self, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """409 Conflict to updates and patches, as if somebody had just written the object."""

        def failure(request: Request) -> errors.ApiError:
            info = request.info
            return errors.Conflict.of(info.resource, info.group, info.name)

        where.setdefault("verb", ("update", "patch"))
        return self.add(_failing(failure), n, **where)

    def too_many(self, n: int | None = 1, *, retry_after: int = 1, **where: Unpack[Where]) -> Fault:
        """429 TooManyRequests with Retry-After (seconds; 0: without the header)."""
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
        message: str = "the server was told to fail",
        **where: Unpack[Where],
    ) -> Fault:
        """Any failure Status; the reason follows from the status unless given."""
        failure = errors.from_status({"code": status, "reason": reason, "message": message})
        failure.reason = reason or type(failure).reason
        return self.add(_failing(lambda request: failure), n, **where)

    def delay(self, delay_s: float, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """The right answer, late."""

        async def act(request: Request, handle: Handle) -> AnyResponse:
            await asyncio.sleep(delay_s)
            return await handle(request)

        return self.add(act, n, **where)

    def lose_answer(self, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """The request is carried out, but the connection breaks before the answer arrives."""

        async def act(request: Request, handle: Handle) -> AnyResponse:
            await handle(request)
            return Stream(_break, length=1)

        return self.add(act, n, **where)

    # -- lists and watches

    def gone(self, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """410: a watch gets an ERROR event (as from Kubernetes), a list from the past is refused.

        A list is struck only when it continues another or names a
        resourceVersion: a fresh list is what clients answer 410 with.
        """

        async def act(request: Request, handle: Handle) -> AnyResponse:
            if request.info.verb == "list":
                return responses.error(request, errors.Expired(_EXPIRED_LIST))
            version = request.first("resourceVersion") or "0"
            line = watchers.error_line(errors.Expired(f"too old resource version: {version}"))
            return Stream(lambda writer: writer.write(line))

        where.setdefault("verb", ("watch", "list"))
        return self.add(act, n, when=_looks_back, **where)

    def slow_watch(self, delay_s: float, n: int | None = 1, **where: Unpack[Where]) -> Fault:
        """Watches opened from now on deliver each event that much later, one after the other."""
        return self._watch(lambda stream: slowed(stream, delay_s), n, where)

    def drop_watch(self, n: int | None = 1, *, after: int = 0, **where: Unpack[Where]) -> Fault:
        """Watches opened from now on are cut, without a farewell, after some events."""
        return self._watch(lambda stream: cut(stream, after), n, where)

    def _watch(self, disturb: Callable[[Stream], Stream], n: int | None, where: Where) -> Fault:
        async def act(request: Request, handle: Handle) -> AnyResponse:
            answer = await handle(request)
            return disturb(answer) if isinstance(answer, Stream) else answer

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


def _looks_back(request: Request) -> bool:
    return (
        request.info.verb == "watch"
        or bool(request.first("continue"))
        or request.first("resourceVersion") not in ("", "0")
    )


async def _break(writer: ResponseWriter) -> None:
    raise ConnectionResetError("the answer was lost on purpose")
