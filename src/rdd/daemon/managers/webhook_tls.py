# SPDX-License-Identifier: Apache-2.0
"""The certificate under which an external program answers admission reviews.

All programs of an instance share one authority, `webhook-ca`; each has its own pair,
`webhook-<program>`, with the names of all services of its webhooks. A lock keeps programs that
start concurrently from creating two authorities.
"""

import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.apiserver.auth import certificates
from rdd.apiserver.auth.certificates import Issued
from rdd.daemon.service.errors import ServiceError
from rdd.host.directories import make_private_dir
from rdd.host.locks import FileLock

AUTHORITY = "webhook-ca"
_LOCK_ATTEMPTS, _LOCK_PAUSE_S = 500, 0.01


@dataclass(frozen=True, slots=True)
class WebhookTls:
    """TLS of a webhook server."""

    context: ssl.SSLContext
    issued: Issued
    ca_bundle: str
    """PEM of the authority, for webhook configurations."""


def ensure(directory: Path, program: str, controllers: Sequence[str]) -> WebhookTls:
    """Return the certificate of a program; issue it if it is missing or about to expire."""
    issued, authority = issue(directory, program, controllers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(issued.certificate_path, issued.key_path)
    return WebhookTls(context, issued, authority.pair.certificate.decode())


def issue(directory: Path, program: str, controllers: Sequence[str]) -> tuple[Issued, Issued]:
    """Return the pair of a program and the authority that signed it."""
    make_private_dir(directory)
    with _lock(directory / f".{AUTHORITY}.lock"):
        authority = certificates.ensure_authority(
            directory,
            AUTHORITY,
            common_name="webhook-ca",
            organization="Rancher Desktop Daemon Webhook",
        )
        stem = f"webhook-{program}"
        for is_last in (False, True):
            issued = certificates.ensure_serving(
                directory,
                stem,
                names=_names(controllers),
                common_name="webhook-server",
                authority=authority.pair,
            )
            if is_last or _is_signed_by(authority, issued):
                break
            issued.certificate_path.unlink()  # signed by an authority that was replaced
        return issued, authority


def _names(controllers: Sequence[str]) -> list[str]:
    services = ["webhook-service", *(f"{name}-webhook" for name in controllers)]
    suffixes = ("", ".default", ".default.svc", ".default.svc.cluster.local")
    return [
        "localhost",
        "127.0.0.1",
        "::1",
        *(service + suffix for service in services for suffix in suffixes),
    ]


def _is_signed_by(authority: Issued, issued: Issued) -> bool:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    signer = x509.load_pem_x509_certificate(authority.pair.certificate)
    try:
        x509.load_pem_x509_certificate(issued.pair.certificate).verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _lock(path: Path) -> FileLock:
    for _ in range(_LOCK_ATTEMPTS):
        lock = FileLock.try_acquire(path)
        if lock is not None:
            return lock
        time.sleep(_LOCK_PAUSE_S)
    raise ServiceError(f'"{path}" is locked by another process')
