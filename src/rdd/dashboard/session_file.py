# SPDX-License-Identifier: Apache-2.0
"""Sessions on disk: `tls/dashboard.json` (0600), beside the tokens.

An open page survives a restart of the daemon, therefore bound sessions are kept. The file has
the hash of each cookie and the key that the page has, too. A file that cannot be read is
ignored: users log in again.
"""

import base64
import json
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically

log = logging.getLogger("rdd.dashboard")

ROLES = ("admin", "viewer")
KEY_BYTES = 32


@dataclass(slots=True)
class Session:
    """One login of a browser."""

    id: str
    """Public: the page sends it to have the daemon prove itself."""
    cookie: str
    """SHA-256 of the cookie's value."""
    role: str
    expires: float
    key: bytes = b""
    """K of the protocol; empty until the browser has bound the session."""


def load(path: Path) -> list[Session]:
    """Return the sessions that are still valid."""
    try:
        text = read_text(path)
        found = [_session(each) for each in json.loads(text)["sessions"]] if text else []
    except (ValueError, KeyError, TypeError, HostError) as error:
        log.warning("the sessions of the dashboard are lost, log in again: %s", error)
        return []
    now = time.time()
    return [session for session in found if session.expires > now]


def save(path: Path, sessions: Iterable[Session]) -> None:
    """Replace the file. Raises HostError."""
    value = [
        {
            "id": s.id,
            "cookie": s.cookie,
            "role": s.role,
            "expires": s.expires,
            "key": base64.b64encode(s.key).decode(),
        }
        for s in sessions
    ]
    if value:
        write_atomically(path, json.dumps({"sessions": value}))
    else:
        remove(path)


def _session(value: Any) -> Session:
    key = base64.b64decode(value["key"], validate=True)
    id_, cookie, role = value["id"], value["cookie"], value["role"]
    is_text = isinstance(id_, str) and isinstance(cookie, str)
    if not is_text or not id_ or len(cookie) != 64 or role not in ROLES or len(key) != KEY_BYTES:
        raise ValueError("malformed session")
    return Session(id_, cookie, role, float(value["expires"]), key)
