# SPDX-License-Identifier: Apache-2.0
"""Our context among the user's Docker contexts.

A context is a directory named by the SHA-256 of its name, below `contexts/meta` (and
`contexts/tls`) of Docker's configuration directory; `currentContext` in `config.json` names
the one in use. Only the context of our own name is created, changed and removed. A foreign
context of that name stays; our own has a known description. Of `config.json` only that one
member changes, the other bytes stay the same.

`rdd.host.contexts.docker_health` decides whether our context becomes the current one.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from rdd.host.contexts import json_members
from rdd.host.contexts.user_files import edit, locked_directory
from rdd.host.errors import HostError
from rdd.host.files import read_text

DEFAULT = "default"
"""The name of the context in use without a selection; it has no metadata."""


def description(name: str) -> str:
    """Return the description of our context, which `docker context ls` shows."""
    return f"Rancher Desktop {name}"


def publish(directory: Path, name: str, *, host: str) -> bool:
    """Create or update our context; return whether anything was written.

    `directory` is Docker's configuration directory (`~/.docker`), `host` the URL of the
    engine (`unix:///…/docker.sock`). Raises HostError, also if a foreign context has that name.
    """
    wanted = {
        "Name": name,
        "Metadata": {"Description": description(name)},
        "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}},
    }
    with locked_directory(directory):
        path = metadata_path(directory, name)

        def change(text: str | None) -> str | None:
            present = _parsed(text)
            if present is not None and not _is_ours(present, name):
                raise HostError(
                    f'a Docker context "{name}" exists that was not created by rdd; '
                    f"remove it with: docker context rm {name}"
                )
            return None if present == wanted else json.dumps(wanted, separators=(",", ":"))

        return edit(path, change, mode=0o644)


def remove(directory: Path, name: str) -> bool:
    """Remove our context and its selection; return whether it existed. Raises HostError.

    Nothing is created. An unreadable configuration file is not changed.
    """
    if not directory.is_dir():
        return False
    with locked_directory(directory):
        text = read_text(metadata_path(directory, name))
        present = _parsed(text)
        if present is not None and not _is_ours(present, name):
            return False
        found = _deselect(directory / "config.json", name)
        key = _key(name)
        for kind in ("meta", "tls"):
            path = directory / "contexts" / kind / key
            if path.is_dir():
                try:
                    shutil.rmtree(path)
                except OSError as error:
                    raise HostError.from_os(f'remove Docker context "{path}"', error) from error
                found = True
        return found


def current(directory: Path) -> str:
    """Return the context that config.json selects; empty without a selection.

    Raises HostError if the file is unreadable.
    """
    path = directory / "config.json"
    config = _config(path, read_text(path))
    chosen = config.get("currentContext")
    return chosen if isinstance(chosen, str) else ""


def make_current(directory: Path, name: str, *, instead_of: str) -> bool:
    """Select a context if `instead_of` is still selected; return whether it was.

    Raises HostError; an unreadable file is not changed.
    """
    path = directory / "config.json"

    def change(text: str | None) -> str | None:
        config = _config(path, text)
        if (config.get("currentContext") or "") != instead_of:
            return None
        return json_members.set_member(text or "{}\n", "currentContext", name)

    with locked_directory(directory):
        return edit(path, change)


def metadata_path(directory: Path, name: str) -> Path:
    return directory / "contexts" / "meta" / _key(name) / "meta.json"


def tls_directory(directory: Path, name: str) -> Path:
    return directory / "contexts" / "tls" / _key(name) / "docker"


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _parsed(text: str | None) -> Any:
    """Return the metadata; None if it is missing or unreadable and may be replaced."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _is_ours(metadata: Any, name: str) -> bool:
    if not isinstance(metadata, dict) or "Endpoints" not in metadata:
        return True  # without an endpoint it is of no use to anything else
    about = metadata.get("Metadata")
    described = about.get("Description") if isinstance(about, dict) else None
    return bool(described == description(name))


def _config(path: Path, text: str | None) -> dict[str, Any]:
    if not (text or "").strip():
        return {}
    try:
        config = json.loads(text or "")
    except ValueError as error:
        raise HostError(f'"{path}" is not JSON and was not changed: {error}') from error
    if not isinstance(config, dict):
        raise HostError(f'"{path}" is not a JSON object and was not changed')
    return config


def _deselect(path: Path, name: str) -> bool:
    def change(text: str | None) -> str | None:
        try:
            config = _config(path, text)
        except HostError:
            return None  # Docker cannot read the selection either
        if text is None or config.get("currentContext") != name:
            return None
        return json_members.without_member(text, "currentContext")

    return edit(path, change)
