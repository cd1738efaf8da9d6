# SPDX-License-Identifier: Apache-2.0
"""The cache directory of this user: shared by all instances of rdd, safe to remove.

`RDD_CACHE_DIR` selects another one.
"""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str], home: Path) -> Path:
    """Return RDD_CACHE_DIR, or the default: `~/.cache/rdd`, on macOS `~/Library/Caches/rdd`."""
    if chosen := environment.get("RDD_CACHE_DIR"):
        return Path(chosen)
    if os.uname().sysname == "Darwin":
        return home / "Library" / "Caches" / "rdd"
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "rdd"
