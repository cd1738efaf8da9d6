# SPDX-License-Identifier: Apache-2.0
"""The file systems of a guest: their free space, and giving freed space back to this computer.

What is deleted in a guest stays allocated in the disk's file until the guest discards the blocks.
The loop in the guest reports the used space; when the file has grown by more than that since the
last trim, the guest trims. So nothing is trimmed by a timer, and a prune by any client, also
`docker` itself, returns its space within a minute. A disk that cannot discard, in the guest or by
the file system on this computer, is reported once the guest runs.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from rdd.host.usage.holes import can_punch_holes
from rdd.vm.agent.events import now
from rdd.vm.disk_report import DiskReport
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.qemu import files
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.ssh import SshError

WORTH_BYTES = 64 << 20
"""A trim reads the maps of all file systems: less is not worth it."""
TRIM_S = 300.0
_KIB = 1024

# Writes device and mount point of each file system with blocks. Every statement fits busybox.
_FILE_SYSTEMS = (
    "awk '$1 ~ /^.dev/ && $3 ~ /^(ext[34]|xfs|btrfs|f2fs)$/ && !seen[$1]++ { print $1, $2 }' "
    "/proc/mounts"
)
TRIM = (
    "sync; "
    + (  # only what is committed can be trimmed
        _FILE_SYSTEMS
        + ' | { status=0; while read -r device point; do fstrim -v "$point" || status=1;'
        " done; exit $status; }"
    )
)
_WITHOUT_DISCARD = (
    _FILE_SYSTEMS + ' | while read -r device point; do name=$(readlink -f "$device");'
    " queue=/sys/class/block/${name##*/}/queue;"
    ' [ -d "$queue" ] || queue=/sys/class/block/${name##*/}/../queue;'
    ' [ "$(cat "$queue/discard_max_bytes")" != 0 ] || echo "$point"; done'
)


class Space(NamedTuple):
    """One line of df."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    point: str


class GuestDisk:
    """Follows the file systems of one guest and trims them."""

    def __init__(self, connection: GuestConnection, context: DriverContext) -> None:
        self._connection = connection
        self._context = context
        self._file = context.directory.path / files.DISK
        self._report = DiskReport()
        self._is_checked = False
        self._surplus_bytes: int | None = None
        """What the file had more than the guest used, when it was last trimmed."""
        self._task: asyncio.Task[None] | None = None

    def measured(self, line: str) -> None:
        """Take the lines of df, joined by `|`."""
        spaces = list(_parse(line))
        if not spaces:
            return
        fullest = min(spaces, key=lambda one: one.free_bytes / one.total_bytes)
        self._publish(
            replace(
                self._report,
                point=fullest.point,
                total_bytes=fullest.total_bytes,
                free_bytes=fullest.free_bytes,
            )
        )
        if self._task is not None and not self._task.done():
            return
        surplus_bytes = self._file_bytes() - sum(one.used_bytes for one in spaces)
        if self._surplus_bytes is None:
            self._surplus_bytes = surplus_bytes  # of the first measurement, and after a trim
        if surplus_bytes - self._surplus_bytes >= WORTH_BYTES:
            self._surplus_bytes = None
            self._task = asyncio.create_task(self._trim(), name="trim")
        elif not self._is_checked:
            self._is_checked = True
            self._task = asyncio.create_task(self._check(), name="discard")

    async def _check(self) -> None:
        """Report a disk that cannot give space back."""
        problem = ""
        if not await asyncio.to_thread(can_punch_holes, self._file.parent):
            problem = f'the file system of "{self._file.parent}" does not free parts of files'
        else:
            try:
                answer = await self._connection.run(_WITHOUT_DISCARD)
            except SshError:
                self._is_checked = False
                return
            if points := ", ".join(answer.output.split()):
                problem = f"the disk of {points} has no discard in the guest"
        if problem != self._report.problem:
            self._publish(replace(self._report, problem=problem))

    async def _trim(self) -> None:
        before_bytes = self._file_bytes()
        problem = ""
        try:
            answer = await self._connection.run(
                f"sudo -n sh -c '{_quoted(TRIM)}'", timeout_s=TRIM_S
            )
            if answer.status != 0:
                problem = answer.errors.strip() or f"exit status {answer.status}"
        except SshError as error:
            problem = str(error)
        if problem:
            self._publish(replace(self._report, problem=f"fstrim failed: {problem}"))
            return
        returned_bytes = max(0, before_bytes - self._file_bytes())
        self._publish(
            replace(
                self._report,
                problem="",
                trimmed_at=now("seconds"),
                returned_bytes=returned_bytes,
            )
        )

    def _file_bytes(self) -> int:
        return self._file.stat().st_blocks * 512 if self._file.exists() else 0

    def _publish(self, report: DiskReport) -> None:
        if report.problem and report.problem != self._report.problem:
            self._context.warn(f"freed space is not returned to this computer: {report.problem}")
        self._report = report
        self._context.disk(report)

    def close(self) -> None:
        """Stop trimming."""
        if self._task is not None:
            self._task.cancel()


def _quoted(script: str) -> str:
    return script.replace("'", "'\\''")


def _parse(line: str) -> Iterator[Space]:
    """Yield the file systems in lines of `df -Pk`; the guest may write anything."""
    for text in line.split("|"):
        words = text.split()
        if len(words) < 6 or not all(word.isascii() and word.isdigit() for word in words[1:4]):
            continue
        total, used, free = (int(word) * _KIB for word in words[1:4])
        if total:
            yield Space(total, used, free, words[5])
