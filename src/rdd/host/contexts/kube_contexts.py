# SPDX-License-Identifier: Apache-2.0
"""Our cluster, user and context among those of the user's kubeconfig.

The files belong to the user and to other programs. Exactly our three entries of one name
change, and `current-context` on request; all other bytes stay the same, comments included. A
file that does not parse is not changed. Entries that are up to date are not written, so a
namespace that the user has set in our context stays.

The file that is written follows kubectl: an entry is changed in the file of `KUBECONFIG` that
contains it; a new entry goes to the first file that exists, or else to the last of the list.
The lock is kubectl's, too.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdd.host.contexts import yaml_entries
from rdd.host.contexts.user_files import edit, locked_like_kubectl
from rdd.host.contexts.yaml_entries import Edit, NotEditable, NotYaml
from rdd.host.errors import HostError
from rdd.host.files import read_text

Entry = dict[str, Any]

CURRENT = "current-context"
_LISTS = ("clusters", "users", "contexts")


def locations(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return the kubeconfig files of a user, in the order in which kubectl reads them."""
    names = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    found = [Path(name) for name in dict.fromkeys(names)]
    return found or [home / ".kube" / "config"]


def publish(paths: Sequence[Path], name: str, *, cluster: Entry, user: Entry) -> bool:
    """Create or update cluster, user and context of a name; return whether anything was written.

    `cluster` and `user` are the content of the entries (`server`, `token`, …). Raises
    HostError; nothing is written if one of the files is unreadable.
    """
    wanted: dict[str, Entry] = {
        "clusters": {"name": name, "cluster": cluster},
        "users": {"name": name, "user": user},
        "contexts": {"name": name, "context": {"cluster": name, "user": name}},
    }
    plan: dict[Path, dict[str, Entry | None]] = {}
    configs = {path: _read(path) for path in paths}
    for key, entry in wanted.items():
        holders = [path for path in paths if _entry(configs[path], key, name) is not None]
        path = holders[0] if holders else default_file(paths)
        present = _entry(configs[path], key, name)
        if key == "contexts" and _leads_to(present, name):
            continue  # it may have a namespace that the user has set
        if present != entry:
            plan.setdefault(path, {})[key] = entry
    for path, entries in plan.items():
        _write(path, Edit(name, entries, {}))
    return bool(plan)


def remove(path: Path, name: str) -> bool:
    """Remove cluster, context and user of a name; return whether one existed. Raises HostError.

    A current-context of that name becomes empty. A missing file is not created. A file that
    is not a kubeconfig is not changed; if it contains the name, that is an error.
    """
    text = read_text(path)
    if text is None or name not in text:
        return False
    try:
        config = yaml_entries.parsed(text)
    except NotYaml as error:
        if not text.lstrip().startswith("-"):
            raise _refusal(path, error) from error
        return False  # a list is not a kubeconfig
    scalars = {CURRENT: ""} if config.get(CURRENT) == name else {}
    change = Edit(name, dict.fromkeys(_LISTS), scalars)
    if yaml_entries.applied(config, change) == config:
        return False
    _write(path, change)
    return True


def current(paths: Sequence[Path]) -> str:
    """Return the current context: that of the first file with one. Raises HostError."""
    for path in paths:
        chosen = _read(path).get(CURRENT)
        if isinstance(chosen, str) and chosen:
            return chosen
    return ""


def make_current(paths: Sequence[Path], name: str, *, instead_of: str) -> bool:
    """Select a context if `instead_of` is still selected; return whether it was.

    Raises HostError.
    """
    path = default_file(paths)
    if current(paths) != instead_of:
        return False
    return _write(path, Edit(name, {}, {CURRENT: name}))


def lookup(paths: Sequence[Path], context: str) -> tuple[Path, Entry] | None:
    """Return the cluster of a context and its file; None if one of them does not exist."""
    configs = [(path, _read(path)) for path in paths]
    found = next(filter(None, (_entry(c, "contexts", context) for _, c in configs)), None)
    inner = (found or {}).get("context")
    wanted = inner.get("cluster") if isinstance(inner, dict) else None
    for path, config in configs:
        cluster = (_entry(config, "clusters", str(wanted)) or {}).get("cluster")
        if wanted and isinstance(cluster, dict):
            return path, cluster
    return None


def default_file(paths: Sequence[Path]) -> Path:
    """Return the file for new entries: the first that exists, or the last of all."""
    return next((path for path in paths if path.exists()), paths[-1])


def standalone(name: str, *, cluster: Entry, user: Entry) -> str:
    """Return the text of a kubeconfig with this context only, selected."""
    return _fresh(name, cluster, user) + f"{CURRENT}: {name}\n"


def _fresh(name: str, cluster: Entry, user: Entry) -> str:
    entries = {
        "clusters": {"name": name, "cluster": cluster},
        "users": {"name": name, "user": user},
        "contexts": {"name": name, "context": {"cluster": name, "user": name}},
    }
    return yaml_entries.edited("apiVersion: v1\nkind: Config\n", Edit(name, entries, {}))


def _write(path: Path, change: Edit) -> bool:
    def made(text: str | None) -> str:
        if not (text or "").strip():
            text = "apiVersion: v1\nkind: Config\n"
        try:
            return yaml_entries.edited(text or "", change)
        except NotYaml as error:
            raise _refusal(path, error) from error
        except NotEditable as error:
            raise HostError(
                f'"{path}" cannot be edited in place and was not changed; '
                f"edit the entries named {change.name} yourself"
            ) from error

    return _locked(path, lambda: edit(path, made))


def _locked(path: Path, write: Callable[[], bool]) -> bool:
    with locked_like_kubectl(path):
        return write()


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    if text is None:
        return {}
    try:
        return yaml_entries.parsed(text)
    except NotYaml as error:
        raise _refusal(path, error) from error


def _refusal(path: Path, error: NotYaml) -> HostError:
    return HostError(f'"{path}" is not YAML and was not changed: {error}')


def _entry(config: Mapping[str, Any], key: str, name: str) -> Entry | None:
    items = config.get(key)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("name") == name:
            return item
    return None


def _leads_to(entry: Entry | None, name: str) -> bool:
    inner = (entry or {}).get("context")
    return isinstance(inner, dict) and inner.get("cluster") == name and inner.get("user") == name
