# SPDX-License-Identifier: Apache-2.0
"""Directories that only their owner may enter.

The mode is set when a directory is created and never afterwards: an existing directory may be
one that the user chose (`RDD_LOG_DIR=/var/log/mine`), and to close it for others would be
damage.
"""

from pathlib import Path

from rdd.host.errors import HostError


def make_private_dir(path: Path) -> None:
    """Create `path` (mode 0700) and its missing parents. Raises HostError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise HostError(
            f'failed to create directory "{path}": "{error.filename}" is not a directory'
        ) from error
    except OSError as error:
        raise HostError.from_os(f'create directory "{path}"', error) from error
