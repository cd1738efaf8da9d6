# SPDX-License-Identifier: Apache-2.0
"""The pid file of an agent: one agent per machine.

`ha.pid` has the number in Lima's form, `ha.identity` identifies the process. A file whose
process is alive is respected, also that of Lima's own agent; any other is stale. Of two agents
that start at the same time the one that locks `ha.lock` wins; the kernel releases the lock
with the end of the process.
"""

import os
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.host.locks import FileLock
from rdd.host.processes import own_identity
from rdd.vm.process_files import live_process, write_pid_file


class PidFile:
    """The pid file of this process; `claim` creates one."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self._path = path
        self._lock = lock

    @classmethod
    def claim(cls, path: Path, lock_path: Path) -> "PidFile":
        """Write the pid file of this process. Raises HostError when another agent is alive.

        The lock belongs to the machine, even if the pid file is elsewhere.
        """
        lock = FileLock.try_acquire(lock_path)
        if lock is None:
            raise HostError(f'another host agent holds "{lock_path}"')
        other = live_process(path, path.with_suffix(".identity"))
        if other is not None and other.pid != os.getpid():
            lock.release()
            raise HostError(f'"{path}" belongs to process {other.pid}, which is alive')
        write_pid_file(path, own_identity())
        return cls(path, lock)

    def release(self) -> None:
        """Remove the files, so that another agent can start."""
        for path in (self._path, self._path.with_suffix(".identity"), self._lock.path):
            remove(path)
        self._lock.release()
