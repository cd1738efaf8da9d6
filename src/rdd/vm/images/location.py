# SPDX-License-Identifier: Apache-2.0
"""Where this user's caches are: shared by all instances of rdd, safe to remove.

A module of its own because host agents load it, and nothing of what else images need.
"""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str], home: Path) -> Path:
    """`~/.cache/rdd`, its place on macOS, or what RDD_CACHE_DIR names."""
    if chosen := environment.get("RDD_CACHE_DIR"):
        return Path(chosen)
    if os.uname().sysname == "Darwin":
        return home / "Library" / "Caches" / "rdd"
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "rdd"
