# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files by kubectl's rules, and the target they lead to.

`--kubeconfig` names one file; else KUBECONFIG lists files, else it is
~/.kube/config. Several files are merged: the first one that names a cluster, a
user, a context or the current context wins. File names inside are relative to
the file they stand in. Flags override what the chosen context says.

`rdd.client.kubeconfig` reads one file for rdd's own connections; this module
merges, overrides and edits, and does not load asyncio.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rdd.base.pflag import Flags
from rdd.kubectl.failures import CtlError, Refused, unsupported

_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_INNER = {"clusters": "cluster", "users": "user", "contexts": "context"}
DEFAULT_SERVER = "http://localhost:8080"


class Target(NamedTuple):
    """A server and the identity to use there."""

    server: str  # URL without a slash at the end
    authority: str = ""  # PEM; empty: the authorities of the system
    token: str = ""
    client_certificate: str = ""  # PEM
    client_key: str = ""
    is_insecure: bool = False
    server_name: str = ""
    namespace: str = ""
    impersonate: tuple[tuple[str, str], ...] = ()  # headers


class Kubeconfig:
    """Merged kubeconfig files; `origins` tells which file an entry is from."""

    def __init__(self, paths: list[Path], *, explicit: bool) -> None:
        self.paths = paths
        self.entries: dict[str, dict[str, dict[str, Any]]] = {m: {} for m in _INNER}
        self.current = ""
        self.preferences: dict[str, Any] = {}
        self.origins: dict[tuple[str, str], Path] = {}
        self.current_origin: Path | None = None
        for path in paths:
            self._add(path, explicit=explicit)

    def _add(self, path: Path, *, explicit: bool) -> None:
        document = read_file(path, explicit=explicit)
        if not document:
            return
        for member, inner in _INNER.items():
            for entry in document.get(member) or ():
                name = str(entry.get("name") or "")
                if name in self.entries[member]:
                    continue
                value = dict(entry.get(inner) or {})
                for key in _FILES.get(member, ()):
                    if value.get(key):
                        value[key] = str(path.parent / str(value[key]))
                self.entries[member][name] = value
                self.origins[member, name] = path
        if not self.current and document.get("current-context"):
            self.current = str(document["current-context"])
            self.current_origin = path
        self.preferences = self.preferences or dict(document.get("preferences") or {})

    def context(self, flags: Flags) -> tuple[str, dict[str, Any]]:
        """The name and content of the chosen context; empty if there is none."""
        name = flags.text("context") or self.current
        if name and name not in self.entries["contexts"]:
            if flags.text("context"):
                raise Refused(f'error: context "{name}" does not exist')
            raise Refused(
                "Error in configuration: \n"
                f"* context was not found for specified context: {name}\n"
                "* cluster has no server defined"
            )
        return name, self.entries["contexts"].get(name, {})

    def target(self, flags: Flags) -> Target:
        """Where and who, with the flags applied. Raises CtlError."""
        _, context = self.context(flags)
        cluster = self._named("clusters", flags.text("cluster") or context.get("cluster"))
        user_name = flags.text("user") or str(context.get("user") or "")
        user = self._named("users", user_name)
        if user and not flags.text("token"):
            for plugin in ("exec", "auth-provider"):
                if plugin in user:
                    raise unsupported(f'user "{user_name}" of the kubeconfig: {plugin!r}')
        if cluster.get("proxy-url"):
            raise unsupported("proxy-url of the kubeconfig")
        flagged = {
            "certificate-authority": flags.text("certificate-authority"),
            "client-certificate": flags.text("client-certificate"),
            "client-key": flags.text("client-key"),
        }
        server = flags.text("server") or str(cluster.get("server") or DEFAULT_SERVER)
        if "://" not in server:
            server = f"http://{server}"
        return Target(
            server=server.rstrip("/"),
            authority=_pem(cluster, "certificate-authority", flagged),
            token=flags.text("token") or _token(user),
            client_certificate=_pem(user, "client-certificate", flagged),
            client_key=_pem(user, "client-key", flagged),
            is_insecure=flags.truth("insecure-skip-tls-verify")
            or str(cluster.get("insecure-skip-tls-verify", "")).lower() == "true",
            server_name=flags.text("tls-server-name") or str(cluster.get("tls-server-name") or ""),
            namespace=str(context.get("namespace") or ""),
            impersonate=_impersonation(flags, user),
        )

    def _named(self, member: str, name: object) -> dict[str, Any]:
        if not name:
            return {}
        found = self.entries[member].get(str(name))
        if found is None:
            raise CtlError(f'{_INNER[member]} "{name}" does not exist')
        return found

    def document(self) -> dict[str, Any]:
        """The merged configuration as one document, entries sorted by name."""
        lists = {
            member: [
                {"name": name, inner: self.entries[member][name]}
                for name in sorted(self.entries[member])
            ]
            or None
            for member, inner in _INNER.items()
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "preferences": self.preferences,
            "current-context": self.current,
            **lists,
        }


def locate(flags: Flags, variables: Mapping[str, str]) -> Kubeconfig:
    """The configuration that flags and environment choose."""
    if flags.text("kubeconfig"):
        return Kubeconfig([Path(flags.text("kubeconfig"))], explicit=True)
    names = [n for n in variables.get("KUBECONFIG", "").split(os.pathsep) if n]
    if not names and variables.get("HOME"):
        names = [f"{variables['HOME']}/.kube/config"]
    return Kubeconfig([Path(n) for n in dict.fromkeys(names)], explicit=False)


def read_file(path: Path, *, explicit: bool) -> dict[str, Any]:
    """One kubeconfig file; a missing one is empty unless it was asked for by name."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if explicit:
            raise CtlError(f"stat {path}: no such file or directory") from None
        return {}
    except OSError as error:
        raise CtlError(
            f'error loading config file "{path}": open {path}: {(error.strerror or "").lower()}'
        ) from None
    import yaml

    try:
        # Every scalar stays text: names such as `on` or `1234` mean themselves.
        document = yaml.load(data, yaml.CBaseLoader)
    except (yaml.YAMLError, ValueError) as error:
        text = " ".join(str(error).split())
        raise CtlError(f'error loading config file "{path}": yaml: {text}') from None
    if document in (None, ""):
        return {}
    if not isinstance(document, dict):
        raise CtlError(f'error loading config file "{path}": it is no kubeconfig')
    return document


def _token(user: Mapping[str, Any]) -> str:
    if user.get("tokenFile") and not user.get("token"):
        return _read(str(user["tokenFile"])).strip()
    return str(user.get("token") or "")


def _pem(entry: Mapping[str, Any], member: str, flagged: Mapping[str, str]) -> str:
    if flagged[member]:
        return _read(flagged[member])
    if data := entry.get(f"{member}-data"):
        import binascii

        try:
            return binascii.a2b_base64(str(data)).decode("ascii")
        except ValueError:
            raise CtlError(f"{member}-data of the kubeconfig is no PEM in base64") from None
    return _read(str(entry[member])) if entry.get(member) else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise CtlError(f"unable to read {path}: {(error.strerror or str(error)).lower()}") from None


def _impersonation(flags: Flags, user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    name = flags.text("as") or str(user.get("as") or "")
    groups = flags.texts("as-group") or [str(g) for g in user.get("as-groups") or ()]
    uid = flags.text("as-uid") or str(user.get("as-uid") or "")
    if not name:
        if groups or uid:
            raise CtlError("requesting groups or user-extra without impersonating a user")
        return ()
    headers = [("Impersonate-User", name)]
    headers += [("Impersonate-Group", group) for group in groups]
    return (*headers, *((("Impersonate-Uid", uid),) if uid else ()))
