# SPDX-License-Identifier: Apache-2.0
"""The endpoints of a session: login, bind, hello, proof, tickets, logout."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rdd.api import errors
from rdd.dashboard import pages, requests
from rdd.dashboard.requests import read_json, send_json, text
from rdd.dashboard.session_file import Session
from rdd.dashboard.sessions import Sessions
from rdd.http.exchange import Exchange

PROTOCOL = 1
_MAX_PATH = 4096
_is_path = re.compile(r"/ws|/k8s/[!$-~]*").fullmatch
"""Printable characters of a request line; no `#`, which a browser would cut off."""

Endpoint = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Identification:
    """What a page shows about the daemon."""

    instance: str
    version: str
    users: dict[str, str]
    """Role → name of the user."""


class Handshake:
    """Logs browsers in and recognises their requests."""

    def __init__(
        self, sessions: Sessions, identification: Identification, build: Callable[[], str]
    ) -> None:
        self._sessions = sessions
        self._identification = identification
        self._build = build
        self.endpoints: dict[tuple[str, str], Endpoint] = {
            ("POST", "/session/bind"): self._bind,
            ("POST", "/session/hello"): self._hello,
            ("POST", "/session"): self._prove,
            ("GET", "/session"): self._show,
            ("POST", "/logout"): self._logout,
            ("POST", "/ticket"): self._ticket,
        }
        self.paths = frozenset(path for _, path in self.endpoints)

    async def login(self, exchange: Exchange) -> None:
        """Use a link: open a session and send the page that binds it."""
        is_speculative = "prefetch" in exchange.headers.get("Sec-Purpose").lower()
        code = exchange.first("code")
        cookie = None
        if exchange.method == "GET" and code and not is_speculative:
            cookie = self._sessions.use_link(code)
        if cookie is None:
            pages.link_refused().send(exchange)
            return
        value = f"{requests.COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Strict"
        pages.login([("Set-Cookie", value)]).send(exchange)

    def session_of(self, exchange: Exchange) -> Session:
        """Return the session of a request with the header. Raises ApiError."""
        csrf = exchange.headers.get(requests.CSRF_HEADER)
        return self._sessions.check(self._cookie(exchange), csrf)

    def session_of_ticket(self, exchange: Exchange) -> tuple[Session, str]:
        """Return the session and the target of a request with a ticket. Raises ApiError."""
        before, _, ticket = exchange.target.rpartition("ticket=")
        if not before.endswith(("?", "&")):
            raise errors.ApiError("a ticket is required", code=401, reason="TicketInvalid")
        target = before[:-1]
        return self._sessions.use_ticket(self._cookie(exchange), ticket, target), target

    def _cookie(self, exchange: Exchange) -> str:
        found = requests.cookies(exchange)
        return next(filter(self._sessions.has_cookie, found), "")

    async def _bind(self, exchange: Exchange) -> None:
        body = await read_json(exchange)
        session, key = await self._sessions.bind(self._cookie(exchange), text(body, "key"))
        send_json(exchange, {"session": session.id, "key": key})

    async def _hello(self, exchange: Exchange) -> None:
        body = await read_json(exchange)
        nonce, proof = self._sessions.hello(
            text(body, "session"), text(body, "nonce"), _host(exchange)
        )
        send_json(exchange, {"nonce": nonce, "proof": proof})

    async def _prove(self, exchange: Exchange) -> None:
        body = await read_json(exchange)
        if body.get("protocol", PROTOCOL) != PROTOCOL:
            raise errors.ApiError(
                f"the daemon has protocol {PROTOCOL} and the page another one: reload the page",
                code=409,
                reason="ProtocolMismatch",
            )
        session, csrf = await self._sessions.prove(
            self._cookie(exchange),
            text(body, "session"),
            text(body, "clientNonce"),
            text(body, "nonce"),
            text(body, "proof"),
            _host(exchange),
        )
        self._send_session(exchange, session, csrf)

    async def _show(self, exchange: Exchange) -> None:
        session = self.session_of(exchange)
        self._send_session(exchange, session, exchange.headers.get(requests.CSRF_HEADER))

    def _send_session(self, exchange: Exchange, session: Session, csrf: str) -> None:
        about = self._identification
        send_json(
            exchange,
            {
                "user": about.users[session.role],
                "role": session.role,
                "instance": about.instance,
                "version": about.version,
                "build": self._build(),
                "protocol": PROTOCOL,
                "csrf": csrf,
                "expires": session.expires,
            },
        )

    async def _logout(self, exchange: Exchange) -> None:
        session = self.session_of(exchange)
        await self._sessions.end(session)
        gone = f"{requests.COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        exchange.send(204, [("Set-Cookie", gone), ("Cache-Control", "no-store")])

    async def _ticket(self, exchange: Exchange) -> None:
        session = self.session_of(exchange)
        path = text(await read_json(exchange), "path")
        if len(path) > _MAX_PATH or not _is_path(path):
            raise errors.BadRequest("path: /ws or an encoded path below /k8s/ is required")
        ticket = self._sessions.create_ticket(session, path)
        mark = "&" if "?" in path else "?"
        send_json(exchange, {"path": f"{path}{mark}ticket={ticket}"})


def _host(exchange: Exchange) -> str:
    return exchange.headers.get("Host").lower()
