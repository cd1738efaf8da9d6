# SPDX-License-Identifier: Apache-2.0
"""The saved arguments of the daemon; an instance exists if their file does.

A damaged file is an error: to start without the saved arguments (a port, a selection of
controllers) would start a different control plane.
"""

import errno
import json
import os
from collections.abc import Sequence
from itertools import pairwise

from rdd.daemon.service.errors import ServiceError
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_new
from rdd.instance import Instance


def exists(instance: Instance) -> bool:
    """Return whether the instance exists."""
    return instance.args_file.exists()


def create(instance: Instance, extra: Sequence[str] = ()) -> bool:
    """Save the default port and further arguments; return False if the instance exists.

    Raises ServiceError, HostError.
    """
    require_home(instance)
    arguments = ["--secure-port", str(instance.ports.api), *extra]
    text = json.dumps(arguments, indent=2) + "\n"
    while True:
        make_private_dir(instance.dir)
        try:
            return write_new(instance.args_file, text)
        except HostError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise  # otherwise the directory was deleted concurrently: retry


def require_home(instance: Instance) -> None:
    """Raise ServiceError if nothing can be created in the home directory.

    A mistyped HOME is not created.
    """
    if not instance.home.is_dir():
        raise ServiceError(f'home directory "{instance.home}" does not exist; create it first')
    is_prepared = instance.short_dir.exists()  # then nothing is created in it directly
    if not is_prepared and not os.access(instance.home, os.W_OK | os.X_OK):
        is_read_only = os.statvfs(instance.home).f_flag & os.ST_RDONLY
        reason = os.strerror(errno.EROFS if is_read_only else errno.EACCES)
        raise ServiceError(f'home directory "{instance.home}" is not writable: {reason}')


def load(instance: Instance) -> list[str]:
    """Return the saved arguments. Raises ServiceError if the file is missing or damaged."""
    text = read_text(instance.args_file)
    if text is None:
        raise ServiceError(f'"{instance.name}" control plane does not exist')
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _corrupt(instance, str(error)) from error
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise _corrupt(instance, "not a list of strings")
    return found


def saved_store(instance: Instance) -> str:
    """Return the etcd:// address in the saved arguments without its options, or nothing.

    Raises ServiceError.
    """
    return saved_flag(instance, "store").partition("?")[0]


def saved_flag(instance: Instance, name: str) -> str:
    """Return the value of a flag in the saved arguments, or nothing. Raises ServiceError."""
    words = load(instance) if exists(instance) else []
    found = ""
    for word, following in pairwise([*words, ""]):
        flag, _, value = word.partition("=")
        if flag == f"--{name}":
            found = value or following
    return found


def require_database(instance: Instance, instead: str) -> None:
    """Refuse a command for the database of an instance that has none. Raises ServiceError."""
    if store := saved_store(instance):
        raise ServiceError(
            f'"{instance.name}" control plane keeps its objects in {store}, not in a database; '
            + instead
        )


def _corrupt(instance: Instance, why: str) -> ServiceError:
    return ServiceError(
        f'the saved arguments in "{instance.args_file}" are damaged ({why}); correct the file '
        'or replace it by [] for the defaults, for example ["--secure-port", '
        f'"{instance.ports.api}"]'
    )
