# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files: the address of a server and the credentials for it.

`Kubeconfig` merges files by the rules of kubectl: the first file that names a
cluster, a user, a context or the current context wins, and file names are
relative to the file they are in. `Kubeconfig.connection` resolves a context, with
values that flags override, to a `ConnectionConfig`. Credential plugins (`exec`,
`auth-provider`) are not supported.

`load` and `parse` resolve a context of one file and accept no gaps. `render` and
`write` make the file of an instance, with its two users:

    context root → cluster root, user system-admin   (current)
    context user → cluster root, user user
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rdd.client.errors import ClientError
from rdd.host.files import open_new, replace

CLUSTER = "root"
ADMIN_CONTEXT, ADMIN_USER = "root", "system-admin"
READER_CONTEXT, READER_USER = "user", "user"

_MEMBERS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_PLUGINS = ("exec", "auth-provider")
_RESOLVED_TAGS = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")


class KubeconfigError(ClientError):
    """A kubeconfig cannot be read, or lacks what a connection needs."""


class UnsupportedSetting(KubeconfigError):
    """A kubeconfig has a setting that only the real kubectl supports."""

    def __init__(self, setting: str) -> None:
        super().__init__(f"{setting} is not supported")
        self.setting = setting


class ConnectionConfig(NamedTuple):
    """Address and credentials for the connections of one user to one server."""

    server: str  # URL without a trailing slash
    authority: str = ""  # PEM of trusted certificates; empty: those of the system
    token: str = ""
    client_certificate: str = ""  # PEM
    client_key: str = ""
    is_insecure: bool = False  # the server's certificate is not verified
    server_name: str = ""  # name in the server's certificate, if not the host of the URL
    namespace: str = ""  # default namespace of the context
    impersonate: tuple[tuple[str, str], ...] = ()  # headers


class Overrides(NamedTuple):
    """Values that take precedence over a kubeconfig; empty ones do not."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    server: str = ""
    token: str = ""
    authority_file: str = ""
    client_certificate_file: str = ""
    client_key_file: str = ""
    is_insecure: bool = False
    server_name: str = ""
    impersonate_user: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_uid: str = ""


NO_OVERRIDES = Overrides()


class Kubeconfig:
    """Merged kubeconfig files."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.entries: dict[str, dict[str, dict[str, Any]]] = {m: {} for m in _MEMBERS}
        self.current = ""
        self.current_origin: Path | None = None
        self.preferences: dict[str, Any] = {}
        self.origins: dict[tuple[str, str], Path] = {}
        """The file of each entry, by member and name."""

    def add(self, document: Mapping[str, Any], path: Path | None = None) -> None:
        """Merge a decoded file; entries that exist already stay."""
        if path is not None:
            self.paths.append(path)
        for member, inner in _MEMBERS.items():
            entries = document.get(member)
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict):
                    self._add_entry(member, str(entry.get("name") or ""), entry.get(inner), path)
        if not self.current and document.get("current-context"):
            self.current = str(document["current-context"])
            self.current_origin = path
        preferences = document.get("preferences")
        if not self.preferences and isinstance(preferences, dict):
            self.preferences = preferences

    def _add_entry(self, member: str, name: str, value: object, path: Path | None) -> None:
        if name in self.entries[member]:
            return
        entry = dict(value) if isinstance(value, dict) else {}
        if path is not None:
            self.origins[member, name] = path
            for key in _FILES.get(member, ()):
                if entry.get(key):
                    entry[key] = str(path.parent / str(entry[key]))
        self.entries[member][name] = entry

    def entry(self, member: str, name: str) -> dict[str, Any]:
        """Return an entry; an empty name stands for an empty entry. Raises KubeconfigError."""
        if not name:
            return {}
        found = self.entries[member].get(name)
        if found is None:
            raise KubeconfigError(f'{_MEMBERS[member]} "{name}" does not exist')
        return found

    def connection(self, overrides: Overrides = NO_OVERRIDES) -> ConnectionConfig:
        """Resolve a context, by default the current one. Raises KubeconfigError.

        The server is empty if neither the kubeconfig nor an override names one.
        """
        context = self.entry("contexts", overrides.context or self.current)
        cluster = self.entry("clusters", overrides.cluster or str(context.get("cluster") or ""))
        user_name = overrides.user or str(context.get("user") or "")
        user = self.entry("users", user_name)
        if not overrides.token:
            for plugin in _PLUGINS:
                if plugin in user:
                    raise UnsupportedSetting(f'user "{user_name}" of the kubeconfig: {plugin!r}')
        if cluster.get("proxy-url"):
            raise UnsupportedSetting("proxy-url of the kubeconfig")
        return ConnectionConfig(
            server=(overrides.server or str(cluster.get("server") or "")).rstrip("/"),
            authority=_pem(cluster, "certificate-authority", overrides.authority_file),
            token=overrides.token or _token(user),
            client_certificate=_pem(user, "client-certificate", overrides.client_certificate_file),
            client_key=_pem(user, "client-key", overrides.client_key_file),
            is_insecure=overrides.is_insecure
            or str(cluster.get("insecure-skip-tls-verify", "")).lower() == "true",
            server_name=overrides.server_name or str(cluster.get("tls-server-name") or ""),
            namespace=str(context.get("namespace") or ""),
            impersonate=_impersonation(overrides, user),
        )

    def document(self) -> dict[str, Any]:
        """Return the merged configuration as one document, entries sorted by name."""
        lists = {
            member: [
                {"name": name, inner: self.entries[member][name]}
                for name in sorted(self.entries[member])
            ]
            or None
            for member, inner in _MEMBERS.items()
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "preferences": self.preferences,
            "current-context": self.current,
            **lists,
        }


def default_paths(variables: Mapping[str, str]) -> list[Path]:
    """Return the files that KUBECONFIG lists, else the one in the home directory."""
    names = [name for name in variables.get("KUBECONFIG", "").split(os.pathsep) if name]
    if not names and variables.get("HOME"):
        names = [f"{variables['HOME']}/.kube/config"]
    return [Path(name) for name in dict.fromkeys(names)]


def decode(data: bytes) -> dict[str, Any]:
    """Decode the text of a file; an empty text is an empty file. Raises KubeconfigError."""
    import yaml

    class Loader(yaml.CSafeLoader):
        """Leaves every scalar but null a text: names such as `on` or `1234` stay as they are."""

        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [(tag, pattern) for tag, pattern in resolvers if tag in _RESOLVED_TAGS]
            for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        document = yaml.load(data, Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise KubeconfigError(f"yaml: {' '.join(str(error).split())}") from None
    if document is None:
        return {}
    if not isinstance(document, dict) or document.get("kind") not in (None, "Config"):
        raise KubeconfigError("not a kubeconfig")
    return document


def load(path: Path, *, context: str = "") -> ConnectionConfig:
    """Return the connection of a context (by default the current one) of one file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"cannot read {path}: {error.strerror}") from error
    return parse(data, context=context, origin=path)


def parse(data: bytes, *, context: str = "", origin: Path | None = None) -> ConnectionConfig:
    """Return the connection of a context in the text of a kubeconfig.

    `origin` is the file of the text: relative file names and messages refer to it.
    """
    try:
        config = Kubeconfig()
        config.add(decode(data), origin)
        if not context and not config.current:
            raise KubeconfigError("current-context is not set")
        connection = config.connection(Overrides(context=context))
        if not connection.server.startswith(("https://", "http://")):
            raise KubeconfigError("the cluster of the context has no http or https server URL")
    except KubeconfigError as error:
        raise KubeconfigError(f"{origin or 'kubeconfig'}: {error}") from None
    return connection


def _token(user: Mapping[str, Any]) -> str:
    if user.get("tokenFile") and not user.get("token"):
        return _read(str(user["tokenFile"])).strip()
    return str(user.get("token") or "")


def _pem(entry: Mapping[str, Any], member: str, override: str) -> str:
    """Return the content of the override, of `<member>-data` (base64) or of the file `<member>`."""
    if override:
        return _read(override)
    if data := entry.get(f"{member}-data"):
        import binascii

        try:
            encoded = "".join(str(data).split())
            return binascii.a2b_base64(encoded, strict_mode=True).decode("ascii")
        except ValueError:
            raise KubeconfigError(f"{member}-data is not PEM in base64") from None
    return _read(str(entry[member])) if entry.get(member) else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KubeconfigError(f"unable to read {path}: {reason.lower()}") from None


def _impersonation(overrides: Overrides, user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    name = overrides.impersonate_user or str(user.get("as") or "")
    groups = overrides.impersonate_groups or tuple(str(g) for g in user.get("as-groups") or ())
    uid = overrides.impersonate_uid or str(user.get("as-uid") or "")
    if not name:
        if groups or uid:
            raise KubeconfigError("requesting groups or user-extra without impersonating a user")
        return ()
    headers = [("Impersonate-User", name)]
    headers += [("Impersonate-Group", group) for group in groups]
    return (*headers, *((("Impersonate-Uid", uid),) if uid else ()))


def render(server: str, *, authority: str, admin_token: str, reader_token: str = "") -> str:
    """Return the kubeconfig of an instance; without a reader token it has only the admin."""
    import binascii

    import yaml

    users = [(ADMIN_CONTEXT, ADMIN_USER, admin_token)]
    if reader_token:
        users.append((READER_CONTEXT, READER_USER, reader_token))
    ca = binascii.b2a_base64(authority.encode(), newline=False).decode()
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
    """Replace a file atomically; only its owner can read it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = open_new(temporary)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
    replace(temporary, path)
