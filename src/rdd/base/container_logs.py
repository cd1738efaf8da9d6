# SPDX-License-Identifier: Apache-2.0
"""The bound of the logs of containers, which dockerd does not have by default.

A container that writes without end would fill the disk, of this computer or of the guest.
"""

from collections.abc import Mapping
from typing import Any

MAX_SIZE, MAX_FILES = "20m", 5


def log_settings(max_size: str = "", max_files: int = 0) -> Mapping[str, Any]:
    """Return the members of dockerd's configuration for the bound."""
    options = {"max-size": max_size or MAX_SIZE, "max-file": str(max_files or MAX_FILES)}
    return {"log-driver": "json-file", "log-opts": options}
