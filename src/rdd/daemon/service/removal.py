# SPDX-License-Identifier: Apache-2.0
"""Deletion and reset of an instance.

Both work whether the daemon runs, was stopped or has crashed, and hold the lock of the
instance. The database is removed first, because a failure there means that it is still in use;
the saved arguments, which make the instance exist, are removed last, so that an interrupted
deletion can be repeated. Of the user's files (Docker contexts and plugins, kubeconfig) only our
entries are removed. The database and the machines go to the trash first (rdd.daemon.service.trash).
"""

import errno
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.daemon import connection
from rdd.daemon.service import arguments, instance_lock, record
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.lifecycle import START_TIMEOUT_S, STOP_TIMEOUT_S, Service
from rdd.daemon.service.machines import delete_all, end_all
from rdd.host.contexts import docker_contexts, kube_contexts
from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.host.tree_removal import remove_as_mapped_root
from rdd.instance import DATABASE_DIR, STDERR_LOG, STDOUT_LOG, Instance
from rdd.toolbox.plugins import links_into, plugin_directory

if TYPE_CHECKING:
    from rdd.host.trash import TrashEntry


def delete(
    service: Service, *, timeout_s: float = STOP_TIMEOUT_S, use_trash: bool = False
) -> "TrashEntry | None":
    """Stop the control plane and remove all files of the instance.

    With `use_trash` the database and the machines are kept there for a week; returns the entry.
    Raises ServiceError with the files that could not be removed.
    """
    instance, report = service.instance, service.caller.report
    if not arguments.exists(instance):
        report(f"{service.title} does not exist")
        return None
    kept: TrashEntry | None = None
    store = ""
    with suppress(ServiceError):  # arguments that cannot be read are no reason to keep it
        store = arguments.saved_store(instance)
    with service.stopped(timeout_s=timeout_s):
        if use_trash:
            kept = _keep(service)
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
        failures += _remove_plugin_links(instance, environments)
        failures += _remove_tree(instance.short_dir)
        failures += _remove_snapshots(instance)
        failures += _remove_instance_dir(instance, keep=bool(failures))
    if failures:
        raise ServiceError(
            f"{service.title} was not deleted completely: {'; '.join(failures)}; "
            "solve this and try again"
        )
    report(
        f"{service.title} has been deleted"
        + (f"; its objects in {store} are kept (etcdctl del --prefix)" if store else "")
    )
    return kept


def reset(
    service: Service,
    *,
    wait: bool = True,
    timeout_s: float = START_TIMEOUT_S,
    use_trash: bool = True,
) -> None:
    """Start with an empty database, without machines, and with the same saved arguments.

    With `use_trash` the old database is kept: in the trash, or beside the new one if it cannot
    be moved there.
    """
    instance, report = service.instance, service.caller.report
    if not arguments.exists(instance):
        report(f"{service.title} does not exist")
        return
    require_resettable(instance)  # no reset if the next start would fail, either
    with service.stopped(timeout_s=STOP_TIMEOUT_S):
        kept = _keep(service) if use_trash else None
        record.clear(instance)
        if kept is not None:
            backup: Path | None = kept.path / DATABASE_DIR
        elif use_trash:
            backup = back_up(instance)
        else:
            _delete_vms(service)
            backup = None
            if failures := _remove_tree(instance.database.parent):
                raise ServiceError(f"{service.title} was not reset: {failures[0]}")
        connection.drop_tokens(instance)
    report(
        f"{service.title} has been reset"
        + (f'; the old database is kept in "{backup}"' if backup else "")
        + (f"; `rdd trash restore {kept.id}` restores it" if kept else "")
    )
    service.start(wait=wait, timeout_s=timeout_s)


def require_resettable(instance: Instance) -> None:
    """Refuse to reset what others may use, too. Raises ServiceError."""
    arguments.require_database(
        instance,
        "nothing was reset: delete the prefix with etcdctl while no control plane uses it, "
        "or create an instance with another one",
    )


def _remove_plugin_links(
    instance: Instance, environments: Iterable[Mapping[str, str]]
) -> Iterator[str]:
    """Remove the links to tools of the instance from docker's plugins; yield what failed."""
    directories = {plugin_directory(variables, instance.home) for variables in environments}
    links = [link for one in directories for link in links_into(one, instance.tools_bin_dir)]
    for place in sorted(links):
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            yield f'"{place}": {error.strerror}'


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


def _keep(service: Service) -> "TrashEntry | None":
    """Shut the machines down and move them to the trash with the database."""
    from rdd.daemon.service.trash import keep

    caller = service.caller
    problems = end_all(service.instance, caller.variables, keep_logs=caller.keep_logs)
    if problems:
        raise ServiceError(f"nothing was deleted: {'; '.join(problems)}; solve this and try again")
    return keep(service.instance)


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


def _remove_snapshots(instance: Instance) -> list[str]:
    from rdd.vm.snapshots.store import SnapshotStore

    try:
        SnapshotStore(instance.snapshot_dirs).remove_all()
    except HostError as error:
        return [str(error)]
    return []


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
    for path in [p for p in instance.dir.iterdir() if p != instance.args_file]:
        if path.is_dir() and not path.is_symlink():
            failures += _remove_tree(path)
        else:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                failures.append(f'"{path}" was not removed: {error.strerror}')
    if failures or keep:
        return failures  # the instance exists until all files are removed
    remove(instance.args_file)
    try:
        instance.dir.rmdir()
    except OSError as error:
        # Not empty: another command creates the instance again.
        if error.errno != errno.ENOTEMPTY:
            failures.append(f'"{instance.dir}" was not removed: {error.strerror}')
    instance_lock.discard(instance)
    return failures
