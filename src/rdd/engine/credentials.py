# SPDX-License-Identifier: Apache-2.0
"""Who we are to a registry, according to the user's Docker configuration.

`config.json` names a credential helper for one registry (`credHelpers`) or for
all (`credsStore`), or holds the credentials itself (`auths`). A helper is a
program `docker-credential-<name>` on the PATH that reads a registry from stdin
and writes JSON. Whatever goes wrong is no reason to refuse a transfer: without
credentials public images still work, and the registry says what it misses. So
failures are reported in `Credentials.problem` and the transfer goes on.
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

from rdd.host.commands import communicate, start_process

HELPER_S = 30.0
_is_helper = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*").fullmatch
_TOKEN = "<token>"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What to send along with a transfer."""

    auth: Mapping[str, str] = field(default_factory=dict)
    """As the engine's API wants it; empty: nobody in particular."""
    problem: str = ""
    """Why there are none although the configuration promises some."""


async def find(directory: Path, server: str, *, environment: Mapping[str, str]) -> Credentials:
    """The credentials for a registry. `directory` is Docker's configuration directory."""
    path = directory / "config.json"
    try:
        config = orjson.loads(await asyncio.to_thread(path.read_bytes))
    except FileNotFoundError:
        return Credentials()
    except (OSError, ValueError) as error:
        return Credentials(problem=f'cannot read "{path}": {error}')
    if not isinstance(config, dict):
        return Credentials(problem=f'"{path}" holds no JSON object')
    helper = _member(config, "credHelpers", server) or config.get("credsStore")
    if isinstance(helper, str) and helper:
        return await _ask(helper, server, environment)
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


async def _ask(helper: str, server: str, environment: Mapping[str, str]) -> Credentials:
    program = f"docker-credential-{helper}"
    path = shutil.which(program, path=environment.get("PATH")) if _is_helper(helper) else None
    if path is None:
        return Credentials(problem=f"the credential helper {program} is not on the PATH")
    try:
        process = await start_process(
            path,
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
        )
    except OSError as error:
        return Credentials(problem=f"cannot run {program}: {error.strerror or error}")
    try:
        async with asyncio.timeout(HELPER_S):
            out, err = await communicate(process, server.encode())
    except TimeoutError:
        return Credentials(problem=f"{program} did not answer within {HELPER_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = (out.strip() or err.strip())[:200].decode("utf-8", "replace")
        if "credentials not found" in said:
            return Credentials()
        return Credentials(problem=f"{program} failed: {said or process.returncode}")
    return _answer(program, server, out)


def _answer(program: str, server: str, out: bytes) -> Credentials:
    try:
        found = orjson.loads(out)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, KeyError, TypeError):
        return Credentials(problem=f"{program} answered something that is not understood")
    if user == _TOKEN:
        return Credentials({"identitytoken": secret, "serveraddress": server})
    return Credentials({"username": user, "password": secret, "serveraddress": server})
