# SPDX-License-Identifier: Apache-2.0
"""The identity that several API servers share (`--identity-dir`).

The directory holds what makes a token or a certificate of one server valid at another: the key
that signs service account tokens, the serving certificate with its authority, and the tokens of
the kubeconfig. The first server creates the files, the others use them; it may be a directory of a
shared file system or a copy. A server keeps its own copy in `tls/`, so it starts without the
directory being changed, and a restart of one server invalidates nothing. What one server rotates
or renews while the others run is in `identity_follower`.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    with _locked(directory):
        for name in _names(instance):
            content = _read(directory / name)
            if content is not None and content != _read(instance.tls_dir / name):
                write_atomically(instance.tls_dir / name, content)
        ensure()
        _save(directory, instance)


def change_identity(directory: Path, instance: Instance, change: Callable[[], object]) -> None:
    """Change the identity of a server with `change`, and store it for the others.

    Raises ServiceError.
    """
    with _locked(directory):
        change()
        _save(directory, instance)


def digest(instance: Instance) -> str:
    """Return what distinguishes the identity of a server. Its secrets cannot be guessed."""
    parts = [_read(instance.tls_dir / name) or "" for name in _names(instance)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    if not directory.is_dir():
        raise ServiceError(f'--identity-dir "{directory}" is not a directory; create it first')
    lock = None
    try:
        lock = _lock(directory / LOCK)
        yield
    except (HostError, OSError) as error:
        raise ServiceError(f'cannot use --identity-dir "{directory}": {error}') from error
    finally:
        if lock is not None:
            lock.release()


def _lock(path: Path) -> FileLock:
    end = time.monotonic() + LOCK_S
    while (lock := FileLock.try_acquire(path)) is None:
        if time.monotonic() > end:
            raise HostError(f'another server has held "{path}" for {LOCK_S:g} s')
        time.sleep(_POLL_S)
    return lock


def _save(directory: Path, instance: Instance) -> None:
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
