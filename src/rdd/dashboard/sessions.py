# SPDX-License-Identifier: Apache-2.0
"""Login links, sessions, proofs and tickets.

A cookie is sent to whoever listens on a port of its host name. So it is only one half of a
session; the other one is the key K, which page and daemon derived when the browser logged in
and which is never sent. States of a session:

    unbound   the link was used; the browser has a minute to bind a key
    bound     kept on disk; opens nothing by itself
    proved    a page has shown that it has K and holds a csrf value of this run of the daemon

Every request needs the cookie and a csrf value. What a page sends while another program has
the port is therefore worthless: the csrf values ended with the daemon, and a proof is valid
for a nonce of the daemon that asked for it and for the port it listens on.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rdd.api import errors
from rdd.dashboard import session_file
from rdd.dashboard.session_file import Session
from rdd.host.commands import run
from rdd.host.errors import HostError

log = logging.getLogger("rdd.dashboard")

LINK_S = 60.0
BIND_S = 60.0
NONCE_S = 30.0
TICKET_S = 30.0
SESSION_S = 7 * 24 * 3600.0
_RENEW_S = 24 * 3600.0
"""A proof extends the session; the file is written once a day."""
MAX_SESSIONS = 32
MAX_LINKS = 16
MAX_PROVED = 64
"""Windows with a csrf value; the oldest proves itself again."""
MAX_TICKETS = 256
_AGREEMENT_S = 30.0
_MIN_NONCE, _MAX_NONCE = 22, 128


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def ended() -> errors.ApiError:
    """Return the error of a session that does not exist any more."""
    return errors.ApiError(
        "the session has ended: run `rdd dashboard`", code=401, reason="SessionEnded"
    )


class Sessions:
    """All sessions of an instance."""

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._links: dict[str, tuple[str, float]] = {}
        self._sessions: dict[str, Session] = {s.id: s for s in session_file.load(path)}
        self._unbound: dict[str, float] = {}
        self._proved: dict[str, str] = {}
        """Hash of the csrf value → id of the session, oldest first."""
        self._tickets: dict[str, tuple[str, str, float]] = {}
        self._nonce_key = secrets.token_bytes(32)
        self._used_nonces: dict[str, float] = {}
        self.on_end: Callable[[str], None] = lambda _: None
        """Called with the id of a session that has ended."""

    # -- login

    def create_link(self, role: str) -> str:
        """Return a code that opens one session of a role within a minute."""
        code = secrets.token_urlsafe(32)
        _bound(self._links, MAX_LINKS - 1)
        self._links[_hash(code)] = (role, self._now() + LINK_S)
        return code

    def use_link(self, code: str) -> str | None:
        """Open a session; return the value of its cookie, None for a wrong or used code."""
        role, deadline = self._links.pop(_hash(code), ("", 0.0))
        if deadline < self._now():
            return None
        cookie = secrets.token_urlsafe(32)
        session = Session(secrets.token_urlsafe(16), _hash(cookie), role, self._now() + SESSION_S)
        while len(self._sessions) >= MAX_SESSIONS:
            self._drop(next(iter(self._sessions)))
        self._sessions[session.id] = session
        self._unbound[session.id] = self._now() + BIND_S
        return cookie

    async def bind(self, cookie: str, public_key: str) -> tuple[Session, str]:
        """Derive K with the browser's public key; return the session and our public key."""
        session = self._with_cookie(cookie)
        if session.id not in self._unbound:
            raise errors.ApiError(
                "the session belongs to another page: run `rdd dashboard`",
                code=409,
                reason="AlreadyBound",
            )
        theirs = _decode_key(public_key)
        deadline = self._unbound.pop(session.id)  # one attempt at a time
        try:
            session.key, ours = await _agree(theirs)
        except BaseException:
            if session.id in self._sessions:
                self._unbound[session.id] = deadline
            raise
        await self._save()
        return session, ours

    # -- proofs

    def hello(self, id_: str, nonce: str, host: str) -> tuple[str, str]:
        """Return a nonce of ours and the proof that we have K."""
        session = self._sessions.get(id_)
        if session is None or not session.key or session.expires <= self._now():
            raise ended()
        if not _MIN_NONCE <= len(nonce) <= _MAX_NONCE:
            raise errors.BadRequest("nonce: 22 to 128 characters of base64url are required")
        stamp = struct.pack("!d", self._now() + NONCE_S) + secrets.token_bytes(16)
        ours = _encoded(stamp + self._nonce_mac(stamp, id_, nonce))
        return ours, _proof(session.key, "rdd-server", host, nonce, ours)

    async def prove(
        self, cookie: str, id_: str, nonce: str, ours: str, proof: str, host: str
    ) -> tuple[Session, str]:
        """Check the proof of a page; return its session and a csrf value."""
        session = self._with_cookie(cookie)
        now = self._now()
        if session.id != id_ or not session.key or not self._is_our_nonce(ours, id_, nonce, now):
            raise ended()
        expected = _proof(session.key, "rdd-page", host, nonce, ours)
        if not hmac.compare_digest(expected.encode(), proof.encode("utf-8", "surrogateescape")):
            raise ended()
        self._used_nonces = {n: until for n, until in self._used_nonces.items() if until > now}
        self._used_nonces[ours] = now + NONCE_S
        csrf = secrets.token_urlsafe(32)
        _bound(self._proved, MAX_PROVED - 1)
        self._proved[_hash(csrf)] = session.id
        if session.expires < now + SESSION_S - _RENEW_S:
            session.expires = now + SESSION_S
            await self._save()
        return session, csrf

    def check(self, cookie: str, csrf: str) -> Session:
        """Return the session of a request. Raises ApiError."""
        session = self._with_cookie(cookie)
        if self._proved.get(_hash(csrf)) != session.id:
            raise _proof_required()
        return session

    # -- tickets

    def create_ticket(self, session: Session, path: str) -> str:
        """Return a ticket for one request of a path that cannot send a header."""
        now = self._now()
        for old in [t for t, (_, _, until) in self._tickets.items() if until < now]:
            del self._tickets[old]
        _bound(self._tickets, MAX_TICKETS - 1)
        ticket = secrets.token_urlsafe(24)
        self._tickets[_hash(ticket)] = (session.id, path, now + TICKET_S)
        return ticket

    def use_ticket(self, cookie: str, ticket: str, path: str) -> Session:
        """Return the session of a request with a ticket. Raises ApiError."""
        session = self._with_cookie(cookie)
        id_, allowed, deadline = self._tickets.pop(_hash(ticket), ("", "", 0.0))
        if id_ != session.id or allowed != path or deadline < self._now():
            raise errors.ApiError(
                "the ticket was used, has expired or is for another path",
                code=401,
                reason="TicketInvalid",
            )
        return session

    # -- the end

    async def end(self, session: Session) -> None:
        """End a session in all windows."""
        self._drop(session.id)
        await self._save()

    async def end_all(self) -> None:
        """End all sessions and login links."""
        self._links.clear()
        for id_ in list(self._sessions):
            self._drop(id_)
        await self._save()

    def _drop(self, id_: str) -> None:
        if self._sessions.pop(id_, None) is None:
            return
        self._unbound.pop(id_, None)
        self._proved = {csrf: of for csrf, of in self._proved.items() if of != id_}
        self._tickets = {t: of for t, of in self._tickets.items() if of[0] != id_}
        self.on_end(id_)

    def has_cookie(self, cookie: str) -> bool:
        """Return whether a value is the cookie of a session."""
        hashed = _hash(cookie)
        return any(s.cookie == hashed for s in self._sessions.values())

    def _with_cookie(self, cookie: str) -> Session:
        # A lookup by hash: its duration reveals nothing about the value.
        hashed = _hash(cookie)
        session = next((s for s in self._sessions.values() if s.cookie == hashed), None)
        if session is None or not cookie:
            raise ended()
        now = self._now()
        if session.expires <= now or self._unbound.get(session.id, now) < now:
            self._drop(session.id)
            raise ended()
        return session

    async def _save(self) -> None:
        kept = [s for s in self._sessions.values() if s.key]
        try:
            await asyncio.to_thread(session_file.save, self._path, kept)
        except HostError as error:
            # The sessions work until the daemon restarts.
            log.warning("the sessions of the dashboard are not kept: %s", error)

    def _nonce_mac(self, stamp: bytes, id_: str, nonce: str) -> bytes:
        message = stamp + f"{id_}\n{nonce}".encode("utf-8", "surrogateescape")
        return hmac.digest(self._nonce_key, message, "sha256")

    def _is_our_nonce(self, ours: str, id_: str, nonce: str, now: float) -> bool:
        """Return whether we issued a nonce for this page, recently, and it is unused."""
        try:
            data = base64.b64decode(ours + "=" * (-len(ours) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return False
        stamp, mac = data[:24], data[24:]
        if not hmac.compare_digest(self._nonce_mac(stamp, id_, nonce), mac):
            return False
        return float(struct.unpack("!d", stamp[:8])[0]) > now and ours not in self._used_nonces


def _proof_required() -> errors.ApiError:
    return errors.ApiError(
        "the page has to prove its session to this run of the daemon",
        code=401,
        reason="ProofRequired",
    )


def _proof(key: bytes, side: str, host: str, nonce: str, ours: str) -> str:
    message = f"{side}\n{host}\n{nonce}\n{ours}".encode("utf-8", "surrogateescape")
    return _encoded(hmac.digest(key, message, "sha256"))


def _decode_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 65 or key[0] != 4:
        raise errors.BadRequest("key: an uncompressed point of P-256 in base64 is required")
    return key


async def _agree(theirs: bytes) -> tuple[bytes, str]:
    """Return the ECDH secret with a public key, and the public key of our side."""
    command = (sys.executable, "-m", "rdd.dashboard.key_agreement")
    try:
        done = await run(*command, timeout_s=_AGREEMENT_S, text=theirs.hex())
        if done.status == 2:
            raise errors.BadRequest("key: not a point of P-256")
        public, _, secret = done.checked("the key agreement").strip().partition(" ")
        return bytes.fromhex(secret), base64.b64encode(bytes.fromhex(public)).decode()
    except (HostError, ValueError) as error:
        log.error("a login failed: %s", error)
        raise errors.InternalError.because("the login failed; see the log of the daemon") from None


def _bound(values: dict[str, Any], size: int) -> None:
    """Drop the oldest members beyond a size."""
    while len(values) > size:
        del values[next(iter(values))]
