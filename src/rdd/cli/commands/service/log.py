# SPDX-License-Identifier: Apache-2.0
"""`rdd service log`: print the daemon's log of the current run."""

import os
import time
from pathlib import Path
from typing import BinaryIO

from rdd.cli.framework.types import Call
from rdd.instance import STDERR_LOG, STDOUT_LOG

_PAUSE_S = 0.2
_CHUNK_BYTES = 64 * 1024


def run(call: Call) -> int:
    name = STDOUT_LOG if call.flags.truth("stdout") else STDERR_LOG
    path = call.instance.log_dir / f"{name}.log"
    print_log(call, path, follow=call.flags.truth("follow"))
    return 0


def print_log(call: Call, path: Path, *, follow: bool) -> None:
    """Print a file from its start; with `follow`, continue with its successor after a rotation."""
    while True:
        try:
            with path.open("rb") as file:
                _print(call, path, file, follow=follow)
        except FileNotFoundError:
            if follow:
                time.sleep(_PAUSE_S)
        if not follow:
            return


def _print(call: Call, path: Path, file: BinaryIO, *, follow: bool) -> None:
    """Print an open file; with `follow`, return when the path refers to another file."""
    while True:
        while data := file.read(_CHUNK_BYTES):
            call.out.write(data.decode("utf-8", "replace"))
        call.out.flush()
        if not follow:
            return
        replaced = _is_replaced(path, file)
        if replaced and not os.fstat(file.fileno()).st_size > file.tell():
            return
        if not replaced:
            time.sleep(_PAUSE_S)


def _is_replaced(path: Path, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return True
