# SPDX-License-Identifier: Apache-2.0
"""Rotation of the tokens, from another process.

A running daemon replaces them itself, so that the old ones are invalid when the command returns.
Without one the command replaces the file while it holds the lock of the instance. Other servers
with the same `--identity-dir` use the new tokens as soon as this one announces them.
"""

from functools import partial
from pathlib import Path

from rdd.daemon import connection
from rdd.daemon.service import arguments
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.lifecycle import Service
from rdd.daemon.service.probe import NotReady, Probe
from rdd.daemon.service.waits import Deadline
from rdd.host.directories import make_private_dir
from rdd.instance import Instance

_FINAL = (401, 403, 404, 405)
"""Statuses that no retry changes: the daemon is of another version."""


def rotate_tokens(service: Service, *, timeout_s: float) -> None:
    """Replace the tokens. Raises ServiceError."""
    instance, report = service.instance, service.caller.report
    if not arguments.exists(instance):
        report(f"{service.title} does not exist")
        return
    deadline = Deadline(timeout_s)
    for _ in deadline.ticks(f"the tokens of {service.title} were not replaced"):
        if service.running() is not None:
            try:
                with Probe(instance) as probe:
                    probe.post(connection.ROTATE_PATH)
                break
            except NotReady as error:
                if error.status in _FINAL:
                    raise ServiceError(
                        f"the tokens of {service.title} were not replaced: {error}; "
                        "restart the control plane and try again"
                    ) from error
            continue
        lock = service.try_lock()
        if lock is not None:
            with lock:
                make_private_dir(instance.tls_dir)
                _rotate(instance)
            break
    report(f"the tokens of {service.title} have been replaced; clients need the new kubeconfig")


def _rotate(instance: Instance) -> None:
    rotate = partial(connection.rotate_tokens, instance)
    if directory := arguments.saved_flag(instance, "identity-dir"):
        from rdd.daemon.sharing.identity import change_identity

        change_identity(Path(directory), instance, rotate)
    else:
        rotate()
