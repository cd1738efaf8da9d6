# SPDX-License-Identifier: Apache-2.0
"""Requests and responses, independent of the transport.

HTTP and the in-process transport both create a `Request`; every handler returns
a `Response`, a `Stream` or a `Hijack`. The path is parsed once into a
`RequestInfo`, as in Kubernetes, because authorisation, limits, metrics and
dispatch all need the same facts.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from rdd.api import names
from rdd.apiserver.auth import identities
from rdd.http.exchange import Exchange, Query
from rdd.http.headers import HeaderList
from rdd.http.responses import Response as Response

if TYPE_CHECKING:
    from rdd.api.yamlcodec import YamlDocument
    from rdd.apiserver.audit.auditor import AuditRecord
    from rdd.store.contract import Check, Put


class User:
    """The user of a request."""

    __slots__ = ("extra", "groups", "is_master", "name", "uid")

    def __init__(
        self,
        name: str,
        groups: tuple[str, ...] = (),
        *,
        uid: str = "",
        extra: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.name = name
        self.uid = uid
        self.groups = groups
        self.extra: Mapping[str, tuple[str, ...]] = extra or {}
        self.is_master = identities.MASTERS in groups

    def to_user_info(self) -> dict[str, Any]:
        """Return the user as authentication.k8s.io UserInfo."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {k: list(v) for k, v in self.extra.items()}
        return info

    def __repr__(self) -> str:
        return f"User({self.name!r}, {self.groups!r})"


ANONYMOUS = User(identities.ANONYMOUS, (identities.UNAUTHENTICATED,))
SYSTEM = User("system:apiserver", (identities.MASTERS,))
"""The user of requests that the server makes itself."""


class RequestInfo:
    """A parsed path.

    For resource requests `verb` is a Kubernetes verb (get, list, watch, create,
    update, patch, delete, deletecollection); otherwise the lower-case method.
    """

    __slots__ = (
        "group",
        "is_resource",
        "name",
        "namespace",
        "parts",
        "path",
        "resource",
        "subresource",
        "verb",
        "version",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_resource = False
        self.verb = ""
        self.group = ""
        self.version = ""
        self.namespace = ""
        self.resource = ""
        self.subresource = ""
        self.name = ""
        self.parts: list[str] = []
        """Path segments after the group and version."""


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def parse_path(method: str, path: str, *, wants_watch: bool = False) -> RequestInfo:
    """Parse a request path; never fails (unknown forms are non-resource paths)."""
    path = _decoded(path)
    info = RequestInfo(path)
    parts = path.strip("/").split("/")
    root = parts[0]
    if root == "api" and len(parts) >= 3:
        info.version, rest = parts[1], parts[2:]
    elif root == "apis" and len(parts) >= 4:
        info.group, info.version, rest = parts[1], parts[2], parts[3:]
    else:
        info.verb = method.lower()
        return info
    info.is_resource = True
    is_watch_path = rest[0] == "watch" and len(rest) > 1
    if is_watch_path:
        rest = rest[1:]  # the deprecated /watch/ prefix
    info.parts = rest
    if rest[0] == "namespaces" and len(rest) >= 2:
        info.namespace = rest[1]
        if len(rest) >= 3 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    info.resource = rest[0]
    if len(rest) >= 2:
        info.name = rest[1]
    if len(rest) >= 3:
        info.subresource = "/".join(rest[2:])
    if method in ("GET", "HEAD"):
        # `watch=true` on the path of one object is a read; only the prefix watches it.
        if is_watch_path or (wants_watch and not info.name):
            info.verb = "watch"
        else:
            info.verb = "get" if info.name else "list"
    else:
        info.verb = _VERBS.get(method, method.lower())
        if info.verb == "delete" and not info.name:
            info.verb = "deletecollection"
    return info


def _decoded(path: str) -> str:
    """Return the path that is routed and authorised: as in Go, an encoded slash separates, too.

    What follows the prefix of passthrough is the business of its handler and stays as it is.
    """
    decoded = unquote(path) if "%" in path else path
    return path if decoded.startswith(names.PASSTHROUGH_PREFIX) else decoded


Headers = Mapping[str, str]
"""Case-insensitive headers of a connection or, in-process, a dict with canonical names."""


class Request:
    """One request."""

    __slots__ = (
        "audit",
        "audit_annotations",
        "body",
        "charge",
        "condition",
        "depth",
        "document",
        "headers",
        "info",
        "is_trusted",
        "load_body",
        "method",
        "path",
        "peer_certificate",
        "query",
        "user",
        "warnings",
    )

    def __init__(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        headers: Headers,
        body: bytes = b"",
        user: User | None = None,
        peer_certificate: bytes | None = None,
        depth: int = 0,
    ) -> None:
        self.method = method
        self.query: Query = {} if query is None else query
        self.headers = headers
        self.body = body
        self.is_trusted = user is not None
        """Whether the request comes from this process with its user: authentication is skipped."""
        self.user: User = user or ANONYMOUS
        self.peer_certificate = peer_certificate
        """DER of the client certificate of the TLS connection, verified against the client CA."""
        self.load_body: Callable[[], Awaitable[bytes]] | None = None
        """Reads the body, which is on its way: called once the request is authorised."""
        self.depth = depth
        """The number of admission calls this request is nested in."""
        self.condition: Check | None = None
        """A further precondition of the commit of this request."""
        self.charge: Callable[[], list[Put]] | None = None
        """Returns writes that belong to the commit of a new object (`quota/admission.py`)."""
        self.document: YamlDocument | None = None
        """The decoded body, if it is YAML large enough to be decoded off the event loop."""
        self.info = parse_path(method, path, wants_watch=_wants_watch(self.query))
        self.path = self.info.path
        self.warnings: list[str] = []
        self.audit_annotations: dict[str, str] = {}
        self.audit: AuditRecord | None = None
        """The audit of this request, if it is logged."""

    def first(self, name: str) -> str:
        """Return the first value of a query parameter, or an empty string."""
        values = self.query.get(name)
        return values[0] if values else ""


def _wants_watch(query: Query) -> bool:
    values = query.get("watch")
    # As in Kubernetes: everything but "0" and "false" is true.
    return values is not None and values[0].lower() not in ("0", "false")


NO_SNIFF = ("X-Content-Type-Options", "nosniff")
"""The header of plain texts and of denied requests."""


def page_not_found() -> Response:
    """Return the plain-text response to a path that no handler serves."""
    return Response(
        404,
        b"404 page not found\n",
        content_type="text/plain; charset=utf-8",
        headers=[NO_SNIFF],
    )


class ResponseWriter(Protocol):
    """The destination of a Stream; `write` returns when the client can receive more."""

    async def write(self, data: bytes) -> None:
        """Send data; raise ConnectionError if the connection is lost."""
        ...

    def push(self, data: bytes) -> bool:
        """Send without waiting; return False if the client is too slow or disconnected."""
        ...

    async def closed(self) -> None:
        """Return when the client has disconnected."""
        ...


class Stream:
    """A response that is produced while it is sent (large lists, watches).

    `length` is the exact number of bytes if known, so that the response can
    carry Content-Length instead of chunks.
    """

    __slots__ = ("content_type", "headers", "length", "produce", "status")

    def __init__(
        self,
        produce: Callable[[ResponseWriter], Awaitable[None]],
        *,
        status: int = 200,
        content_type: str = "application/json",
        headers: list[tuple[str, str]] | None = None,
        length: int | None = None,
    ) -> None:
        self.status = status
        self.content_type = content_type
        self.headers = headers
        self.produce = produce
        self.length = length


class Hijack:
    """A response given by a handler that takes over the connection, as Go's http.Hijacker.

    `serve` receives the exchange with its body unread, and is cancelled when the
    client disconnects. A caller in this process, which has no connection, gets
    the error in `body`.
    """

    __slots__ = ("headers", "serve")

    status = 400
    content_type = "application/json"
    body = (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"this path can only be used over a connection","reason":"BadRequest",'
        b'"code":400}'
    )

    def __init__(self, serve: Callable[[Exchange], Awaitable[None]]) -> None:
        self.serve = serve
        self.headers: HeaderList | None = None


AnyResponse = Response | Stream | Hijack
