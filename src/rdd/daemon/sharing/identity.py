# SPDX-License-Identifier: Apache-2.0
"""The identity that several API servers share (`--identity-dir`).

The directory holds what makes a token or a certificate of one server valid at another: the key
that signs service account tokens, the serving certificate with its authority, and the tokens of
the kubeconfig. The first server creates the files, the others use them; it may be a directory of a
shared file system or a copy. A server keeps its own copy in `tls/`, so it starts without the
directory being changed, and a restart of one server invalidates nothing.
"""

import time
from collections.abc import Callable
from pathlib import Path

from rdd.apiserver.auth import certificates
from rdd.daemon.service.errors import ServiceError
from rdd.host.errors import HostError
from rdd.host.files import write_atomically
from rdd.host.locks import FileLock
from rdd.instance import Instance

LOCK = "lock"
LOCK_S = 30.0
_POLL_S = 0.05


def use_identity(directory: Path, instance: Instance, ensure: Callable[[], None]) -> None:
    """Take the identity of a directory, complete it with `ensure`, and store what is new there.

    Raises ServiceError.
    """
    if not directory.is_dir():
        raise ServiceError(f'--identity-dir "{directory}" is not a directory; create it first')
    names = _names(instance)
    try:
        lock = _lock(directory / LOCK)
    except HostError as error:
        raise ServiceError(f'cannot use --identity-dir "{directory}": {error}') from error
    try:
        before = {name: _read(directory / name) for name in names}
        for name, content in before.items():
            if content is not None and content != _read(instance.tls_dir / name):
                write_atomically(instance.tls_dir / name, content)
        ensure()
        save_identity(directory, instance)
    except (HostError, OSError) as error:
        raise ServiceError(f'cannot use --identity-dir "{directory}": {error}') from error
    finally:
        lock.release()


def _lock(path: Path) -> FileLock:
    end = time.monotonic() + LOCK_S
    while (lock := FileLock.try_acquire(path)) is None:
        if time.monotonic() > end:
            raise HostError(f'another server has held "{path}" for {LOCK_S:g} s')
        time.sleep(_POLL_S)
    return lock


def save_identity(directory: Path, instance: Instance) -> None:
    """Store the identity of a server for the others. Raises HostError, OSError."""
    for name in _names(instance):
        content = _read(instance.tls_dir / name)
        if content is not None and content != _read(directory / name):
            write_atomically(directory / name, content)


def _names(instance: Instance) -> tuple[str, ...]:
    return (
        certificates.SIGNING_KEY,
        f"{certificates.SERVING}.key",
        f"{certificates.SERVING}.crt",
        instance.tokens_file.name,
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
