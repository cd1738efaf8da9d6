# SPDX-License-Identifier: Apache-2.0
"""The last lines of a log, for error messages."""

import os
from pathlib import Path


def last_lines(path: Path, *, max_bytes: int) -> list[str]:
    """Return the complete lines in the last bytes of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - max_bytes))
            lines = file.read(max_bytes).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return lines[1:] if end > max_bytes else lines
