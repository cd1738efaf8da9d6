# SPDX-License-Identifier: Apache-2.0
"""Registry credentials from the user's Docker configuration.

`config.json` names a credential helper for one registry (`credHelpers`) or for all
(`credsStore`), or holds the credentials itself (`auths`). A helper is a program
`docker-credential-<name>` on the PATH that reads a registry from stdin and writes JSON.
A failure does not abort a transfer: public images need no credentials, and the registry
reports what it misses. So failures are returned in `Credentials.problem`.
"""

import asyncio
import base64
import binascii
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from rdd.host import commands
from rdd.host.errors import HostError

HELPER_S = 30.0
_is_helper = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*").fullmatch
_TOKEN = "<token>"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials for a transfer."""

    auth: Mapping[str, str] = field(default_factory=dict)
    """The `X-Registry-Auth` of the Docker API; empty means anonymous."""
    problem: str = ""
    """Why configured credentials could not be read."""


async def find(directory: Path, server: str, *, environment: Mapping[str, str]) -> Credentials:
    """Return the credentials for a registry. `directory` is Docker's configuration directory."""
    path = directory / "config.json"
    try:
        config = orjson.loads(await asyncio.to_thread(path.read_bytes))
    except FileNotFoundError:
        return Credentials()
    except (OSError, ValueError) as error:
        return Credentials(problem=f'cannot read "{path}": {error}')
    if not isinstance(config, dict):
        return Credentials(problem=f'"{path}" is not a JSON object')
    helper = _member(config, "credHelpers", server) or config.get("credsStore")
    if isinstance(helper, str) and helper:
        return await _run_helper(helper, server, environment)
    stored = _member(config, "auths", server) or _member(config, "auths", f"https://{server}")
    return _stored(stored, server) if isinstance(stored, dict) else Credentials()


def _member(config: Mapping[str, Any], name: str, server: str) -> Any:
    found = config.get(name)
    return found.get(server) if isinstance(found, dict) else None


def _stored(entry: Mapping[str, Any], server: str) -> Credentials:
    if isinstance(entry.get("identitytoken"), str):
        return Credentials({"identitytoken": entry["identitytoken"], "serveraddress": server})
    user, password = entry.get("username"), entry.get("password")
    if isinstance(entry.get("auth"), str) and entry["auth"]:
        try:
            text = base64.b64decode(entry["auth"], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return Credentials(problem=f"the stored credentials for {server} cannot be decoded")
        user, _, password = text.rstrip("\0").partition(":")
    if not isinstance(user, str) or not isinstance(password, str) or not user:
        return Credentials()
    return Credentials({"username": user, "password": password, "serveraddress": server})


async def _run_helper(helper: str, server: str, environment: Mapping[str, str]) -> Credentials:
    program = f"docker-credential-{helper}"
    path = shutil.which(program, path=environment.get("PATH")) if _is_helper(helper) else None
    if path is None:
        return Credentials(problem=f"the credential helper {program} is not on the PATH")
    try:
        done = await commands.run(
            path, "get", timeout_s=HELPER_S, text=server, environment=environment
        )
    except HostError as error:
        return Credentials(problem=str(error))
    if done.status != 0:
        message = (done.output.strip() or done.errors.strip())[:200]
        if "credentials not found" in message:
            return Credentials()
        return Credentials(problem=f"{program} failed: {message or done.status}")
    return _parse(program, server, done.output)


def _parse(program: str, server: str, output: str) -> Credentials:
    try:
        found = orjson.loads(output)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, KeyError, TypeError):
        return Credentials(problem=f"{program} wrote a malformed response")
    if user == _TOKEN:
        return Credentials({"identitytoken": secret, "serveraddress": server})
    return Credentials({"username": user, "password": secret, "serveraddress": server})
