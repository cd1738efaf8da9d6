# SPDX-License-Identifier: Apache-2.0
"""Print a hash of everything that the page of the dashboard is built from.

These are its own sources, and the kinds, whose OpenAPI documents its types are generated from.
"""

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"node_modules", "dist"}


def sources() -> list[Path]:
    """Return the files, sorted by their paths."""
    page = [
        path
        for path in (ROOT / "dashboard").rglob("*")
        if path.is_file() and not LEFT_OUT.intersection(path.relative_to(ROOT).parts)
    ]
    generated = ROOT / "dashboard" / "src" / "api" / "types.ts"
    kinds = (ROOT / "src" / "rdd" / "kinds").rglob("*.py")
    scripts = [ROOT / "scripts" / "dashboard.sh", ROOT / "scripts" / "dashboard_types.py"]
    versions = [ROOT / "requirements" / "node.txt"]
    return sorted({*page, *kinds, *scripts, *versions} - {generated})


def digest() -> str:
    """Return the hash."""
    total = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        total.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()[:16]


if __name__ == "__main__":
    print(digest())  # noqa: T201
