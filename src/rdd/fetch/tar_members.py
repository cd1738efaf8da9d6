# SPDX-License-Identifier: Apache-2.0
"""Members of a tar archive of any length.

tarfile keeps every member that it has read, for a later lookup by name: an archive of millions of
small files would take all memory.
"""

import tarfile
from collections.abc import Iterator


def members_of(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the next members, which the archive then forgets. Raises TarError."""
    while (member := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined]
        yield member
