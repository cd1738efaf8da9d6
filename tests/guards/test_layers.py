# SPDX-License-Identifier: Apache-2.0
"""The layers of docs/architecture.md.

import-linter checks the direction of imports (pyproject.toml). The guards here check that each
package is in its contract, and that some packages do not import others below them.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rdd"

MUST_NOT_IMPORT = {
    "base": ("rdd.", "asyncio", "socket", "sqlite3", "aiohttp"),
    "api": ("rdd.", "asyncio", "socket", "sqlite3", "aiohttp"),
    "http": ("rdd.", "aiohttp"),
    "host": ("rdd.",),
    "instance": ("rdd.",),
    "cel": ("rdd.host", "rdd.instance", "asyncio", "aiohttp"),
    "schema": ("rdd.store", "aiohttp"),
    "store": ("rdd.api", "rdd.schema", "rdd.cel", "aiohttp"),
    "client": ("rdd.apiserver", "rdd.store", "rdd.schema"),
    "runtime": ("rdd.kinds", "rdd.store", "rdd.schema"),
    "vm": ("rdd.api", "rdd.client", "rdd.kinds", "rdd.schema"),
    "engine": ("rdd.api", "rdd.client", "rdd.kinds", "rdd.schema"),
    "kinds": ("rdd.client", "rdd.host", "rdd.store"),
    "controllers": ("rdd.apiserver", "rdd.store"),
    "cli": ("rdd.apiserver", "rdd.store", "rdd.schema", "rdd.cel"),
}


def packages() -> list[str]:
    """Return every package and module directly under rdd."""
    names = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    return sorted(names + [path.stem for path in SOURCE.glob("*.py") if path.stem[0] != "_"])


def sources(package: str) -> Iterator[Path]:
    module = SOURCE / f"{package}.py"
    yield from [module] if module.exists() else sorted((SOURCE / package).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Yield the names of all modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_package_has_its_place_in_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    named = set(re.findall(r"\w+", " ".join(contract["layers"])))
    assert set(packages()) <= named


@pytest.mark.parametrize("package", sorted(MUST_NOT_IMPORT))
def test_package_does_not_import_forbidden_packages(package: str) -> None:
    own = f"rdd.{package}"
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(package)
        for name in imports(path)
        for forbidden in MUST_NOT_IMPORT[package]
        if (name == forbidden or name.startswith(forbidden.rstrip(".") + "."))
        and not name.startswith((own, "rdd.base"))
    ]
    assert wrong == []
