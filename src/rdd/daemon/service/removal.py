# SPDX-License-Identifier: Apache-2.0
"""Deleting an instance, and resetting one.

Both work whether the daemon runs, was stopped or has crashed, and hold the lock of
the instance meanwhile. The database goes first, because a failure there means that
somebody still uses it; the saved arguments, which make the instance exist, go last,
so that a deletion that was interrupted can be repeated. The user's files (Docker
contexts, kubeconfig) lose our entries and nothing else.
"""

import errno
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rdd.daemon.service import arguments, record
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.lifecycle import START_TIMEOUT_S, STOP_TIMEOUT_S, Service
from rdd.daemon.service.machines import delete_all
from rdd.host import docker_contexts, kube_contexts
from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.host.trees import remove_as_mapped_root
from rdd.instance import DATABASE_DIR, STDERR_LOG, STDOUT_LOG, Instance


def delete(service: Service, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stop the control plane and remove everything of the instance.

    Raises ServiceError that lists what could not be removed.
    """
    instance, report = service.instance, service.caller.report
    if not arguments.exists(instance):
        report(f"{service.title} does not exist")
        return
    with service.stopped(timeout_s=timeout_s):
        _delete_vms(service)
        environments = (service.caller.variables, record.last_environment(instance))
        try:
            instance.database.unlink(missing_ok=True)
        except OSError as error:
            raise HostError.from_os(f'remove "{instance.database}"', error) from error
        leftovers = list(remove_contexts(instance, environments))
        leftovers += _remove_tree(instance.database.parent)
        if not service.caller.keep_logs:
            leftovers += _remove_logs(instance)
        leftovers += _remove_tree(instance.short_dir)
        leftovers += _remove_instance_dir(instance, keep=bool(leftovers))
    if leftovers:
        raise ServiceError(
            f"{service.title} was not deleted completely: {'; '.join(leftovers)}; "
            "try again when that is solved"
        )
    report(f"{service.title} has been deleted")


def reset(service: Service, *, wait: bool = True, timeout_s: float = START_TIMEOUT_S) -> None:
    """Put the database aside and start with an empty one and the same saved arguments."""
    instance, report = service.instance, service.caller.report
    if not arguments.exists(instance):
        report(f"{service.title} does not exist")
        return
    arguments.load(instance)  # nothing is put aside if it could not be started again
    with service.stopped(timeout_s=STOP_TIMEOUT_S):
        record.clear(instance)
        backup = put_aside(instance)
    report(
        f'{service.title} has been reset; the old database is kept in "{backup}"'
        if backup
        else f"{service.title} has been reset"
    )
    service.start(wait=wait, timeout_s=timeout_s)


def put_aside(instance: Instance) -> Path | None:
    """Rename the directory of the database, which is one step; None if there is none."""
    directory = instance.database.parent
    if not directory.exists():
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1, 1000):
        target = instance.dir / f"{DATABASE_DIR}-{stamp}{f'-{number}' if number > 1 else ''}"
        if not target.exists():
            break
    try:
        directory.rename(target)
    except OSError as error:
        raise HostError.from_os(f'put "{directory}" aside', error) from error
    return target


def remove_contexts(instance: Instance, environments: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Remove our entries from Docker's and kubectl's files; yields what went wrong.

    Looks where this command's environment and that of the daemon point.
    """
    docker: dict[Path, None] = {}
    kube: dict[Path, None] = {}
    for variables in environments:
        docker[Path(variables.get("DOCKER_CONFIG") or instance.home / ".docker")] = None
        names = [name for name in variables.get("KUBECONFIG", "").split(os.pathsep) if name]
        for name in names or [str(instance.home / ".kube" / "config")]:
            kube[Path(name)] = None
    for paths, remove_context in ((docker, docker_contexts.remove), (kube, kube_contexts.remove)):
        for path in paths:
            try:
                remove_context(path, instance.name)
            except HostError as error:
                yield str(error)


def _delete_vms(service: Service) -> None:
    """End what a daemon that crashed has left running, and remove it as a daemon would."""
    caller = service.caller
    problems = delete_all(service.instance, caller.variables, keep_logs=caller.keep_logs)
    if problems:
        raise ServiceError(
            f"{service.title} was not deleted: {'; '.join(problems)}; try again when that is solved"
        )


def _remove_tree(path: Path) -> list[str]:
    failures: list[str] = []

    def failed(_: object, name: str, info: tuple[object, BaseException, object]) -> None:
        if not isinstance(info[1], FileNotFoundError):
            failures.append(f'"{name}" is left: {getattr(info[1], "strerror", info[1])}')

    shutil.rmtree(path, onerror=failed)
    if failures and remove_as_mapped_root(path):
        return []
    return failures[:1]  # what is below a directory that cannot be removed says nothing new


def _remove_logs(instance: Instance) -> list[str]:
    if instance.log_dir_override is None:
        return _remove_tree(instance.log_dir)
    # A directory the user chose may hold more than ours.
    failures: list[str] = []
    for name in (STDOUT_LOG, STDERR_LOG):
        for path in instance.log_dir.glob(f"{name}*.log"):
            try:
                path.unlink()
            except OSError as error:
                failures.append(f'"{path}" is left: {error.strerror}')
    try:
        instance.log_dir.rmdir()
    except OSError:
        pass
    return failures


def _remove_instance_dir(instance: Instance, *, keep: bool) -> list[str]:
    failures: list[str] = []
    last = (instance.args_file, instance.lock_file)
    for path in [p for p in instance.dir.iterdir() if p not in last]:
        if path.is_dir() and not path.is_symlink():
            failures += _remove_tree(path)
        else:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                failures.append(f'"{path}" is left: {error.strerror}')
    if failures or keep:
        return failures  # the instance exists until all of it is gone
    for path in last:
        remove(path)
    try:
        instance.dir.rmdir()
    except OSError as error:
        # Not empty: the lock file is back, because somebody creates the instance anew.
        if error.errno != errno.ENOTEMPTY:
            failures.append(f'"{instance.dir}" is left: {error.strerror}')
    return failures
