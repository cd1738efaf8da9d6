# SPDX-License-Identifier: Apache-2.0
"""What clients keep of a daemon across its restarts (tokens and port), and its TLS settings.

A kubeconfig contains both, so a client that was connected before a crash, a stop or an upgrade
goes on with the one it has. Tokens are in `tls/tokens.json` (0600) and nowhere else; they change
only by `rdd service rotate-tokens`, `reset` and `delete`. A file that cannot be read is replaced:
new tokens cost clients a reload of the kubeconfig, no start is worth less.

The port is the last one used, if it is free. A configuration that has changed since then takes
precedence, otherwise `--secure-port` would have no effect after the first start.
"""

import json
import logging
import secrets
import socket
import ssl
from pathlib import Path

from rdd.apiserver.auth import certificates
from rdd.client import kubeconfig
from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically
from rdd.host.sockets import listen_on_loopback
from rdd.instance import Instance

log = logging.getLogger("rdd.daemon")

ROTATE_PATH = "/service/rotate-tokens"
"""A POST of an administrator replaces the tokens of a running daemon."""
_CONTEXTS = (kubeconfig.ADMIN_CONTEXT, kubeconfig.READER_CONTEXT)
_TOKEN_BYTES = 32
_MIN_TOKEN = 20
"""Shorter texts are not ours; a damaged file must not result in a token that can be guessed."""


def keep_tokens(instance: Instance) -> dict[str, str]:
    """Return the tokens by context; create them if there are none. Raises HostError."""
    path = instance.tokens_file
    text = read_text(path)
    if text is not None:
        found = _parse_tokens(text)
        if found is not None:
            _make_private(path)
            return found
        log.warning('"%s" is damaged: clients need the new tokens in the kubeconfig', path)
    return rotate_tokens(instance)


def rotate_tokens(instance: Instance) -> dict[str, str]:
    """Replace the tokens by new ones and return them; no session outlives them.

    Raises HostError.
    """
    remove(instance.dashboard_file)
    tokens = {context: secrets.token_urlsafe(_TOKEN_BYTES) for context in _CONTEXTS}
    write_atomically(instance.tokens_file, json.dumps(tokens))
    return tokens


def drop_tokens(instance: Instance) -> None:
    """Remove the tokens, so that the next start creates new ones. Raises HostError."""
    remove(instance.dashboard_file)
    remove(instance.tokens_file)


def _parse_tokens(text: str) -> dict[str, str] | None:
    try:
        found = json.loads(text)
        tokens = {context: found[context] for context in _CONTEXTS}
    except (ValueError, KeyError, TypeError):
        return None
    is_usable = all(
        isinstance(t, str) and len(t) >= _MIN_TOKEN and t.isascii() and t.isprintable()
        for t in tokens.values()
    )
    return tokens if is_usable and len(set(tokens.values())) == len(tokens) else None


def _make_private(path: Path) -> None:
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise HostError.from_os(f'protect "{path}"', error) from error


def listen(instance: Instance, configured: int) -> socket.socket:
    """Listen on the last port, the configured one or any free one. Raises HostError."""
    last = _last_port(instance, configured)
    ports = (last, configured) if last else (configured,)
    sock = listen_on_loopback(*ports)
    used = sock.getsockname()[1]
    if used != last:
        text = json.dumps({"port": used, "configured": configured})
        # Without the file the next start uses the configured port: no reason to fail.
        try:
            write_atomically(instance.port_file, text, durable=False)
        except HostError as error:
            log.warning("the port is not recorded: %s", error)
    return sock


def _last_port(instance: Instance, configured: int) -> int:
    """Return the port of the last run with this configuration, 0 if there is none."""
    try:
        found = json.loads(read_text(instance.port_file) or "{}")
        port = found["port"] if found["configured"] == configured else 0
    except (ValueError, KeyError, TypeError, HostError):
        return 0
    return port if isinstance(port, int) and 0 < port < 65536 else 0


def tls_context(serving: certificates.Issued, client_ca_file: str = "") -> ssl.SSLContext:
    """Return the TLS settings of the API. Raises HostError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(serving.certificate_path, serving.key_path)
    context.set_alpn_protocols(["http/1.1"])
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise HostError(
                f'failed to read the client authorities "{client_ca_file}" (--client-ca-file): '
                f"{error.strerror or error}"
            ) from error
        # Requested, not required: bearer tokens stay valid.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
