# SPDX-License-Identifier: Apache-2.0
"""How this rdd was installed: by uv or pipx, and from where.

Both leave a file in the environment of a program. Its source matters: `uv tool upgrade` and
`pipx upgrade` fetch from the same source again, and in the index of Python packages another
project may have the name. So an upgrade from the index is offered only if the page of the index
names the home of this project.
"""

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = "rdd"
_UV_FILE, _PIPX_FILE = "uv-receipt.toml", "pipx_metadata.json"
_UV_SOURCES = ("directory", "editable", "path", "url", "git")
_from_index = re.compile(rf"{PACKAGE}(\[[^]]*\])?\s*([=<>~!,].*)?").fullmatch


class Installation(NamedTuple):
    """An installation that another program manages."""

    program: str
    command: tuple[str, ...]
    """Updates rdd."""
    source: str
    """A directory, file or URL; empty: the index of Python packages."""


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
            source = "" if _from_index(source) else source
            return Installation("pipx", ("pipx", "upgrade", name), source)
    except (ValueError, KeyError, TypeError, AttributeError):
        return (
            None  # written by a version that we do not understand: better no offer than a wrong one
        )
    return None


def is_this_project(page: Any) -> bool:
    """Return whether a page of the index (JSON) is that of this project."""
    own = {
        line.partition(", ")[2] for line in metadata.metadata(PACKAGE).get_all("Project-URL") or ()
    }
    try:
        listed = set((page["info"].get("project_urls") or {}).values())
    except (KeyError, TypeError, AttributeError):
        return False
    return bool(own & listed)


def _source_of_uv(receipt: dict[str, Any]) -> str:
    (found,) = [one for one in receipt["tool"]["requirements"] if one["name"] == PACKAGE]
    return next((str(found[key]) for key in _UV_SOURCES if key in found), "")


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
