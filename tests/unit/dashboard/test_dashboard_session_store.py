# SPDX-License-Identifier: Apache-2.0
"""Sessions: expiry, bounds and what is kept on disk."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rdd.api import errors
from rdd.dashboard.sessions import (
    BIND_S,
    LINK_S,
    MAX_LINKS,
    MAX_SESSIONS,
    SESSION_S,
    TICKET_S,
    Sessions,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock) -> Sessions:
    return Sessions(tmp_path / "dashboard.json", now=clock)


def public_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    point = key.public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    return base64.b64encode(point).decode()


async def opened(sessions: Sessions, role: str = "admin") -> str:
    cookie = sessions.use_link(sessions.create_link(role))
    assert cookie is not None
    await sessions.bind(cookie, public_key())
    return cookie


def test_link_expires_and_works_once(sessions: Sessions, clock: Clock) -> None:
    code = sessions.create_link("admin")
    clock.now += LINK_S - 1
    assert sessions.use_link(code)
    assert sessions.use_link(code) is None
    late = sessions.create_link("admin")
    clock.now += LINK_S + 1
    assert sessions.use_link(late) is None
    assert sessions.use_link("") is None


def test_old_links_give_way(sessions: Sessions) -> None:
    codes = [sessions.create_link("admin") for _ in range(MAX_LINKS + 1)]
    assert sessions.use_link(codes[0]) is None
    assert sessions.use_link(codes[-1])


async def test_session_must_be_bound_in_time(sessions: Sessions, clock: Clock) -> None:
    cookie = sessions.use_link(sessions.create_link("admin"))
    assert cookie
    clock.now += BIND_S + 1
    with pytest.raises(errors.ApiError, match="has ended"):
        await sessions.bind(cookie, public_key())


@pytest.mark.parametrize(
    "key",
    ["", "!", base64.b64encode(b"\x04" + bytes(64)).decode(), base64.b64encode(bytes(65)).decode()],
)
async def test_rejects_invalid_keys(sessions: Sessions, key: str) -> None:
    cookie = sessions.use_link(sessions.create_link("admin"))
    assert cookie
    with pytest.raises(errors.BadRequest, match="key: "):
        await sessions.bind(cookie, key)


async def test_session_expires_without_use(sessions: Sessions, clock: Clock) -> None:
    cookie = await opened(sessions)
    (session,) = [s for s in sessions._sessions.values() if s.key]
    clock.now += SESSION_S + 1
    with pytest.raises(errors.ApiError, match="has ended"):
        sessions.hello(session.id, "A" * 22, "host")
    with pytest.raises(errors.ApiError, match="has ended"):
        sessions.check(cookie, "x")


def test_oldest_session_gives_way(sessions: Sessions) -> None:
    ended: list[str] = []
    sessions.on_end = ended.append
    first, *_ = [sessions.use_link(sessions.create_link("admin")) for _ in range(MAX_SESSIONS + 1)]
    assert first
    assert len(ended) == 1
    assert not sessions.has_cookie(first)


async def test_ticket_expires(sessions: Sessions, clock: Clock) -> None:
    cookie = await opened(sessions)
    (session,) = sessions._sessions.values()
    ticket = sessions.create_ticket(session, "/ws")
    clock.now += TICKET_S + 1
    with pytest.raises(errors.ApiError, match="ticket"):
        sessions.use_ticket(cookie, ticket, "/ws")


async def test_bound_sessions_are_kept_and_unbound_ones_are_not(
    tmp_path: Path, clock: Clock, sessions: Sessions
) -> None:
    cookie = await opened(sessions, "viewer")
    unbound = sessions.use_link(sessions.create_link("admin"))
    await opened(sessions)
    path = tmp_path / "dashboard.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert cookie not in path.read_text()
    again = Sessions(path, now=clock)
    assert again.has_cookie(cookie)
    assert unbound
    assert not again.has_cookie(unbound)
    assert {s["role"] for s in json.loads(path.read_text())["sessions"]} == {"viewer", "admin"}
    await again.end_all()
    assert not path.exists()


async def test_nonce_of_another_run_is_not_accepted(
    tmp_path: Path, clock: Clock, sessions: Sessions
) -> None:
    cookie = await opened(sessions)
    (session,) = sessions._sessions.values()
    ours, _ = sessions.hello(session.id, "A" * 22, "host")
    other = Sessions(tmp_path / "dashboard.json", now=clock)
    with pytest.raises(errors.ApiError, match="has ended"):
        await other.prove(cookie, session.id, "A" * 22, ours, "x", "host")
