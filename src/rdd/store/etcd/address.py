# SPDX-License-Identifier: Apache-2.0
"""Addresses of etcd: `etcd://[USER@]HOST:PORT[,HOST:PORT…]/PREFIX[?OPTION=VALUE&…]`.

The options are files, because arguments of a process are visible to other users:

    ca              certificate authorities of the servers (PEM); enables TLS
    cert, key       client certificate and its key (PEM); enables TLS
    password-file   the password of USER
    shared=true     several control planes use the prefix at the same time

Everything below the prefix belongs to one control plane: its objects under `PREFIX/keys`, its
own records under `PREFIX/meta`.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

_OPTIONS = ("ca", "cert", "key", "password-file", "shared")
_DEFAULT_PORT = 2379


class InvalidAddress(ValueError):
    """The address of a store is malformed; the text is for people."""


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """Where and how to reach a prefix in etcd."""

    endpoints: tuple[tuple[str, int], ...]
    prefix: str
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    is_shared: bool = False

    @property
    def uses_tls(self) -> bool:
        return self.ca is not None or self.cert is not None

    def __str__(self) -> str:
        hosts = ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.endpoints)
        return f"etcd://{hosts}{self.prefix}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS set-up, None without TLS. Raises InvalidAddress."""
        if not self.uses_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidAddress(f"cannot use the certificates of {self}: {error}") from error
        context.set_alpn_protocols(["h2"])
        return context

    def password(self) -> str:
        """Return the password of the user, empty without one. Raises InvalidAddress."""
        if self.password_file is None:
            return ""
        try:
            return self.password_file.read_text().rstrip("\n")
        except OSError as error:
            raise InvalidAddress(f"cannot read the password of {self}: {error}") from error


def parse_address(text: str) -> EtcdAddress:
    """Parse an address. Raises InvalidAddress."""
    parts = urlsplit(text)
    if parts.scheme != "etcd":
        raise InvalidAddress(f'store "{text}" must begin with etcd://')
    user, _, hosts = parts.netloc.rpartition("@")
    if ":" in user:
        raise InvalidAddress(
            f'store "{text.replace(user, "…")}" contains a password; use ?password-file=FILE'
        )
    prefix = parts.path.rstrip("/")
    if not prefix:
        raise InvalidAddress(f'store "{text}" has no prefix; e.g. etcd://{hosts}/rdd/2')
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in options.items():
        if name not in _OPTIONS:
            raise InvalidAddress(
                f'store "{text}" has an unknown option "{name}"; valid: {", ".join(_OPTIONS)}'
            )
        if not value:
            raise InvalidAddress(f'store "{text}": option "{name}" needs a value')
    if ("cert" in options) != ("key" in options):
        raise InvalidAddress(f'store "{text}": options "cert" and "key" belong together')
    if bool(user) != ("password-file" in options):
        raise InvalidAddress(f'store "{text}": a user and "password-file" belong together')
    if options.get("shared", "true") not in ("true", "false"):
        raise InvalidAddress(f'store "{text}": option "shared" must be true or false')
    files = {name: Path(options[name]) for name in ("ca", "cert", "key") if name in options}
    return EtcdAddress(
        tuple(_endpoint(text, host) for host in hosts.split(",")),
        prefix,
        unquote(user),
        Path(options["password-file"]) if "password-file" in options else None,
        files.get("ca"),
        files.get("cert"),
        files.get("key"),
        options.get("shared") == "true",
    )


def _endpoint(text: str, host: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidAddress(f'store "{text}": endpoint "{host}": {error}') from error
    if not name:
        raise InvalidAddress(f'store "{text}": endpoint "{host}" has no host name')
    return name, port or _DEFAULT_PORT
