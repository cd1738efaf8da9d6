# SPDX-License-Identifier: Apache-2.0
"""Notices that a host agent is stopped (SIGSTOP, a debugger), without waking up meanwhile.

A stopped agent is alive and silent, like an idle one. The kernel reports stops of child
processes, and agents are children of the daemon that started them: a thread waits for that in
waitid(2). A pidfd does not report stops, and a handler of SIGCHLD would belong to the whole
process. Agents of a former daemon are replaced, so only those of Lima, which cannot be, remain
without this.
"""

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable

HUNG_S = 10.0
"""How long an agent is stopped before that is a problem: two deadlines of 5 s."""

_CHANGES = [getattr(os, f"CLD_{name}", 0) for name in ("STOPPED", "TRAPPED", "CONTINUED")]


class StoppedAgentWatch:
    """Calls `changed` in the loop: True when a child has been stopped for long, else False."""

    def __init__(self, process: "subprocess.Popen[bytes]", changed: Callable[[bool], None]) -> None:
        self._pid = process.pid
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        if hasattr(os, "waitid"):
            name = f"stops of process {self._pid}"
            threading.Thread(target=self._wait, name=name, daemon=True).start()

    def close(self) -> None:
        """Report nothing from now on; the thread ends with the process."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        wanted, is_stop = os.WSTOPPED, True
        while True:
            try:
                # WNOWAIT: the exit status belongs to Popen.
                found = os.waitid(os.P_PID, self._pid, wanted | os.WEXITED | os.WNOWAIT)
                if found is None or found.si_code not in _CHANGES:
                    return  # it has ended
                self._loop.call_soon_threadsafe(self._notice, is_stop)
            except (OSError, RuntimeError):
                return  # it has ended, or the loop has
            is_stop = not is_stop
            wanted = os.WSTOPPED if is_stop else os.WCONTINUED

    def _notice(self, is_stopped: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed:
            return
        if is_stopped:
            self._timer = self._loop.call_later(HUNG_S, self._changed, True)
        else:
            self._changed(False)
