# SPDX-License-Identifier: Apache-2.0
"""How this rdd was installed: by uv or pipx, and from where.

Both leave a file in the environment of a program. Its source matters: `uv tool upgrade` and
`pipx upgrade` fetch from the same source again, and in the public index of Python packages the
name belongs to another project. Nothing in a package of an index proves whose it is, so only an
installation from a directory, a file or a URL is updated.
"""

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = "rdd"
_UV_FILE, _PIPX_FILE = "uv-receipt.toml", "pipx_metadata.json"
_UV_SOURCES = ("directory", "editable", "path", "url", "git")


class Installation(NamedTuple):
    """An installation that another program manages."""

    program: str
    command: tuple[str, ...]
    """Updates rdd."""
    source: str
    """A directory, file or URL; empty: an index of Python packages."""


def installation(prefix: Path) -> Installation | None:
    """Return how an environment was installed; None if neither by uv nor by pipx."""
    try:
        if (text := _read(prefix / _UV_FILE)) is not None:
            source = _source_of_uv(tomllib.loads(text))
            return Installation("uv", ("uv", "tool", "upgrade", PACKAGE), source)
        if (text := _read(prefix / _PIPX_FILE)) is not None:
            package = json.loads(text)["main_package"]
            name = f"{PACKAGE}{package.get('suffix') or ''}"
            source = str(package["package_or_url"])
            source = source if source.startswith("/") or "://" in source else ""
            return Installation("pipx", ("pipx", "upgrade", name), source)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # of an unknown version: better no offer than a wrong one
    return None


def _source_of_uv(receipt: dict[str, Any]) -> str:
    (found,) = [one for one in receipt["tool"]["requirements"] if one["name"] == PACKAGE]
    return next((str(found[key]) for key in _UV_SOURCES if key in found), "")


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
