# SPDX-License-Identifier: Apache-2.0
"""requirements/dev.txt locks the requirements of pyproject.toml (scripts/lock.sh writes it)."""

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements" / "dev.txt").read_text()
ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; [^\\]+)? \\\n(?P<hashes>(?:    .*\n)+)", re.M
)


def required(group: str) -> list[Requirement]:
    found = []
    for line in PYPROJECT["dependency-groups"][group]:
        if isinstance(line, dict):
            found += required(line["include-group"])
        else:
            found.append(Requirement(line))
    return found


def test_every_requirement_is_locked_within_its_range() -> None:
    locked = {found["name"]: found["version"] for found in ENTRY.finditer(LOCK)}
    wanted = required("dev") + [Requirement(line) for line in PYPROJECT["project"]["dependencies"]]
    wrong = [
        f"{requirement} is locked as {version}"
        for requirement in wanted
        if not requirement.specifier.contains(
            version := locked.get(canonicalize_name(requirement.name), "0"), prereleases=True
        )
    ]
    assert not wrong, f"{wrong}: run scripts/lock.sh"


def test_lock_holds_nothing_but_versions_and_hashes() -> None:
    rest = ENTRY.sub("", LOCK)
    assert [line for line in rest.splitlines() if not line.startswith("#")] == []
    for entry in ENTRY.finditer(LOCK):
        for line in entry["hashes"].splitlines():
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
