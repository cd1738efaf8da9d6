# SPDX-License-Identifier: Apache-2.0
"""Names that several packages share are spelled once, in rdd.api.names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from rdd.api import names

SOURCE = Path(__file__).parents[2] / "src" / "rdd"
# They must not import rdd.api, or describe the complete API of Kubernetes.
EXEMPT = ("vm", "engine", "schema", "store", "host", "base", "cel")

# Words such as "app" or "Running" have other meanings, too; these strings have only one.
UNIQUE = {
    value: name
    for name, value in vars(names).items()
    if name.isupper() and isinstance(value, str) and ("." in value or "-" in value[1:-1])
}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield node.lineno, node.value


def modules() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    return [p for p in found if p.relative_to(SOURCE).parts[0] not in EXEMPT]


@pytest.mark.parametrize("package", sorted({p.relative_to(SOURCE).parts[0] for p in modules()}))
def test_shared_names_are_spelled_once(package: str) -> None:
    copies = [
        f"{path.relative_to(SOURCE)}:{line}: use names.{UNIQUE.get(text, 'DOMAIN')}"
        for path in modules()
        if path.relative_to(SOURCE).parts[0] == package and path.name != "names.py"
        for line, text in literals(path)
        if text in UNIQUE or names.DOMAIN in text
    ]
    assert copies == []
