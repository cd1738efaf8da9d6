# SPDX-License-Identifier: Apache-2.0
"""Listening beyond loopback: a second socket with a certificate of the operator.

The socket on 127.0.0.1 with the daemon's own certificate stays as it is: local clients and the
kubeconfig depend on it. Other machines connect to `--listen-address`, which needs a certificate
that they can verify; without all three flags nothing listens there.
"""

import socket
import ssl
from pathlib import Path

from rdd.apiserver.auth import x509
from rdd.daemon.service.errors import ServiceError
from rdd.host.sockets import BACKLOG


def check_flags(address: str, cert_file: str, key_file: str) -> tuple[str, int] | None:
    """Return host and port to listen on, None without the flags. Raises ServiceError."""
    if not (address or cert_file or key_file):
        return None
    if not (address and cert_file and key_file):
        raise ServiceError(
            "--listen-address, --tls-cert-file and --tls-private-key-file belong together: "
            "listening beyond loopback needs a certificate"
        )
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ServiceError(
            f'invalid --listen-address "{address}"; expected HOST:PORT, e.g. 10.0.0.1:6443'
        )
    return host, int(port)


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address. Raises ServiceError."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ServiceError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ServiceError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return sock


def host_names(cert_file: str) -> frozenset[str]:
    """Return the DNS names and IP addresses of a certificate. Raises ServiceError."""
    try:
        der = next(iter(x509.pem_blocks(Path(cert_file).read_bytes())))
        return frozenset(x509.parse_certificate(der).names)
    except (OSError, ValueError, StopIteration) as error:
        raise ServiceError(f'cannot read the certificate "{cert_file}": {error}') from error


def use_certificate(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    """Serve with a certificate of the operator. Raises ServiceError."""
    try:
        context.load_cert_chain(cert_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise ServiceError(
            f'cannot use the certificate "{cert_file}" with the key "{key_file}": '
            f"{error.strerror or error}"
        ) from error
