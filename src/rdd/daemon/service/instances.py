# SPDX-License-Identifier: Apache-2.0
"""The instances of a user, by their directories.

An instance exists from its creation to its deletion; whether its daemon runs does not
matter. Nothing here creates or changes one.
"""

from collections.abc import Iterator
from pathlib import Path

from rdd.daemon.service import arguments, record
from rdd.host.usage.disk import Usage, usage
from rdd.host.usage.memory import tree_bytes
from rdd.instance import (
    DEFAULT_SUFFIX,
    NAME_PREFIX,
    Instance,
    InvalidInstanceName,
    System,
    directories,
)
from rdd.vm.instance_dir import LimaHome


def existing(home: Path, system: System) -> list[Instance]:
    """Return the instances of a home directory, sorted by name."""
    parent = directories(DEFAULT_SUFFIX, home, system).dir.parent
    return sorted(
        (found for found in _candidates(parent, home, system) if arguments.exists(found)),
        key=lambda instance: instance.suffix,
    )


def _candidates(parent: Path, home: Path, system: System) -> Iterator[Instance]:
    try:
        names = [path.name for path in parent.iterdir()]
    except OSError:
        return
    for name in names:
        if name.startswith(NAME_PREFIX):
            try:
                yield Instance(name.removeprefix(NAME_PREFIX), home, system)
            except InvalidInstanceName:
                continue


def disk_usage(instance: Instance) -> Usage:
    """Return the disk space of an instance with its machines and logs."""
    return usage((instance.dir, instance.short_dir, instance.log_dir))


def memory_bytes(instance: Instance) -> int | None:
    """Return the memory of the daemon and the machines; 0 if nothing runs, None if unknown."""
    daemon = record.read(instance)
    pids = [daemon.process.pid] if daemon else []
    home = LimaHome(instance.lima_home)
    for name in home.names():
        directory = home.directory(name)
        for process in (directory.agent(), directory.driver_process()):
            if process is not None:
                pids.append(process.pid)
    return tree_bytes(pids) if pids else 0
