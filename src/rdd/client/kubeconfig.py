# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files: where a server is and how to prove who one is.

`load` reads what a connection needs from any kubeconfig, ours or a cluster's:
server, authority, token, client certificate, given as data or as files.
Credential plugins (`exec`, `auth-provider`) are refused by name. `render` and
`write` make the file of an instance, with its two users:

    context root → cluster root, user system-admin   (current)
    context user → cluster root, user user
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLUSTER = "root"
ADMIN_CONTEXT, ADMIN_USER = "root", "system-admin"
READER_CONTEXT, READER_USER = "user", "user"


class KubeconfigError(Exception):
    """A kubeconfig cannot be read or does not say enough; the text is one line."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What it takes to connect as one user."""

    server: str
    """URL, without a slash at the end."""
    authority: str = ""
    """PEM of the certificates to trust; empty: those of the system."""
    token: str = ""
    client_certificate: str = ""
    """PEM; empty: none."""
    client_key: str = ""
    is_insecure: bool = False
    """The server's certificate is not checked."""
    server_name: str = ""
    """The name the server's certificate must have, if it is not that of the URL."""
    namespace: str = ""
    """The context's default namespace."""


def load(path: Path, *, context: str = "") -> Connection:
    """The connection of a context (the current one if none is named)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"cannot read {path}: {error.strerror}") from error
    return parse(data, context=context, origin=path)


def parse(data: bytes, *, context: str = "", origin: Path | None = None) -> Connection:
    """The connection of a context in the text of a kubeconfig; `origin` resolves file names."""
    import yaml

    where = str(origin) if origin is not None else "kubeconfig"
    try:
        config = yaml.load(data, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise KubeconfigError(f"{where} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict) or config.get("kind") not in (None, "Config"):
        raise KubeconfigError(f"{where} is no kubeconfig")
    name = context or str(config.get("current-context") or "")
    if not name:
        raise KubeconfigError(f"{where} has no current-context")
    chosen = _entry(config, "contexts", "context", name, where)
    cluster = _entry(config, "clusters", "cluster", str(chosen.get("cluster") or ""), where)
    user_name = str(chosen.get("user") or "")
    user = _entry(config, "users", "user", user_name, where) if user_name else {}
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            raise KubeconfigError(f"{where}: user {user_name!r} needs {plugin!r}, not supported")
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise KubeconfigError(f"{where}: cluster of context {name!r} has no usable server URL")
    folder = origin.parent if origin is not None else None
    token = str(user.get("token") or "")
    if not token and user.get("tokenFile"):
        token = _file(folder, str(user["tokenFile"])).strip()
    return Connection(
        server=server,
        authority=_pem(cluster, "certificate-authority", folder),
        token=token,
        client_certificate=_pem(user, "client-certificate", folder),
        client_key=_pem(user, "client-key", folder),
        is_insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        namespace=str(chosen.get("namespace") or ""),
    )


def _entry(
    config: Mapping[str, Any], member: str, inner: str, name: str, where: str
) -> dict[str, Any]:
    entries = config.get(member)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(inner)
            return found if isinstance(found, dict) else {}
    raise KubeconfigError(f"{where} has no {inner} {name!r}")


def _pem(entry: Mapping[str, Any], member: str, folder: Path | None) -> str:
    """`<member>-data` in base64, or the content of the file `<member>`."""
    data = entry.get(f"{member}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{member}-data is no PEM in base64") from error
    return _file(folder, str(entry[member])) if entry.get(member) else ""


def _file(folder: Path | None, name: str) -> str:
    path = folder / name if folder is not None else Path(name)
    try:
        return path.read_text()
    except OSError as error:
        raise KubeconfigError(f"cannot read {path}: {error.strerror}") from error


def render(server: str, *, authority: str, admin_token: str, reader_token: str = "") -> str:
    """The kubeconfig of an instance as text; without a reader token only the admin is in it."""
    import yaml

    users = [(ADMIN_CONTEXT, ADMIN_USER, admin_token)]
    if reader_token:
        users.append((READER_CONTEXT, READER_USER, reader_token))
    ca = base64.b64encode(authority.encode()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": CLUSTER, "cluster": {"server": server, "certificate-authority-data": ca}}
        ],
        "users": [{"name": user, "user": {"token": token}} for _, user, token in users],
        "contexts": [
            {"name": context, "context": {"cluster": CLUSTER, "user": user}}
            for context, user, _ in users
        ],
        "current-context": ADMIN_CONTEXT,
    }
    return str(yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=False))


def write(path: Path, text: str) -> None:
    """Put the file in place in one step, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
    temporary.replace(path)
