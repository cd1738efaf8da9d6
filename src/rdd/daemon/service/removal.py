# SPDX-License-Identifier: Apache-2.0
"""Deletion and reset of an instance.

Both work whether the daemon runs, was stopped or has crashed, and hold the lock of the
instance. The database is removed first, because a failure there means that it is still in use;
the saved arguments, which make the instance exist, are removed last, so that an interrupted
deletion can be repeated. Of the user's files (Docker contexts, kubeconfig) only our entries
are removed.
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
from rdd.host.tree_removal import remove_as_mapped_root
from rdd.instance import DATABASE_DIR, STDERR_LOG, STDOUT_LOG, Instance


def delete(service: Service, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stop the control plane and remove all files of the instance.

    Raises ServiceError with the files that could not be removed.
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
        failures = list(remove_contexts(instance, environments))
        failures += _remove_tree(instance.database.parent)
        if not service.caller.keep_logs:
            failures += _remove_logs(instance)
        failures += _remove_tree(instance.short_dir)
        failures += _remove_instance_dir(instance, keep=bool(failures))
    if failures:
        raise ServiceError(
            f"{service.title} was not deleted completely: {'; '.join(failures)}; "
            "solve this and try again"
        )
    report(f"{service.title} has been deleted")


def reset(service: Service, *, wait: bool = True, timeout_s: float = START_TIMEOUT_S) -> None:
    """Back up the database and start with an empty one and the same saved arguments."""
    instance, report = service.instance, service.caller.report
    if not arguments.exists(instance):
        report(f"{service.title} does not exist")
        return
    arguments.load(instance)  # no reset if the next start would fail
    with service.stopped(timeout_s=STOP_TIMEOUT_S):
        record.clear(instance)
        backup = back_up(instance)
    report(
        f'{service.title} has been reset; the old database is kept in "{backup}"'
        if backup
        else f"{service.title} has been reset"
    )
    service.start(wait=wait, timeout_s=timeout_s)


def back_up(instance: Instance) -> Path | None:
    """Rename the directory of the database, which is atomic; None if it does not exist."""
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
        raise HostError.from_os(f'rename "{directory}"', error) from error
    return target


def remove_contexts(instance: Instance, environments: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Remove our entries from the files of Docker and kubectl; yields failures.

    The files are those of the environments of this command and of the daemon.
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
    """Shut down and remove virtual machines, also those of a crashed daemon."""
    caller = service.caller
    problems = delete_all(service.instance, caller.variables, keep_logs=caller.keep_logs)
    if problems:
        raise ServiceError(
            f"{service.title} was not deleted: {'; '.join(problems)}; solve this and try again"
        )


def _remove_tree(path: Path) -> list[str]:
    failures: list[str] = []

    def failed(_: object, name: str, info: tuple[object, BaseException, object]) -> None:
        if not isinstance(info[1], FileNotFoundError):
            failures.append(f'"{name}" was not removed: {getattr(info[1], "strerror", info[1])}')

    shutil.rmtree(path, onerror=failed)
    if failures and remove_as_mapped_root(path):
        return []
    return failures[:1]  # errors of parent directories follow from the first


def _remove_logs(instance: Instance) -> list[str]:
    if instance.log_dir_override is None:
        return _remove_tree(instance.log_dir)
    # A directory that the user chose may contain other files.
    failures: list[str] = []
    for name in (STDOUT_LOG, STDERR_LOG):
        for path in instance.log_dir.glob(f"{name}*.log"):
            try:
                path.unlink()
            except OSError as error:
                failures.append(f'"{path}" was not removed: {error.strerror}')
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
                failures.append(f'"{path}" was not removed: {error.strerror}')
    if failures or keep:
        return failures  # the instance exists until all files are removed
    for path in last:
        remove(path)
    try:
        instance.dir.rmdir()
    except OSError as error:
        # Not empty: another command creates the instance again.
        if error.errno != errno.ENOTEMPTY:
            failures.append(f'"{instance.dir}" was not removed: {error.strerror}')
    return failures
