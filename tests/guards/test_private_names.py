# SPDX-License-Identifier: Apache-2.0
"""The source uses no private names of other packages, nor of other modules of this one.

A name with a leading underscore may be used in the module that defines it. An
access `x._name` elsewhere reaches into a library (aiohttp, asyncio, uvloop,
orjson, cryptography, …) or into another module, and breaks without notice when
that changes. Inside a class that inherits from a library class, `self._name`
counts the same way.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rdd"
PUBLIC = {"_replace", "_asdict", "_make", "_fields", "_exit"}  # documented: namedtuple, os


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def defined_names(tree: ast.Module) -> set[str]:
    """Return the names that a module defines: functions, classes, variables and attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
                names.add(node.attr)
    return names


def foreign_imports(tree: ast.Module) -> set[str]:
    """Return the names that a module imports from other packages."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("rdd"):
            names |= {a.asname or a.name for a in node.names}
    return names


def private_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in ("rdd", "__future__"):
                continue
            modules = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            if not module.startswith("rdd.") and any(map(is_private, module.split("."))):
                yield node.lineno, f"import {module}"


def private_accesses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    own = defined_names(tree) | PUBLIC
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if is_private(name) and name not in own:
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr"), args=[_, key, *_]):
                if isinstance(key, ast.Constant) and is_private(str(key.value)):
                    yield node.lineno, ast.unparse(node)


def inherited_private_accesses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    own, foreign = defined_names(tree) | PUBLIC, foreign_imports(tree)
    for cls in ast.walk(tree):
        if not isinstance(cls, ast.ClassDef):
            continue
        roots = {ast.unparse(base).split(".")[0].split("[")[0] for base in cls.bases}
        if not roots & foreign:
            continue
        for node in ast.walk(cls):
            match node:
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                    if is_private(name) and name not in own:
                        yield node.lineno, ast.unparse(node)


def findings(text: str) -> list[tuple[int, str]]:
    tree = ast.parse(text)
    return sorted(
        {*private_imports(tree), *private_accesses(tree), *inherited_private_accesses(tree)}
    )


def test_no_private_names_of_other_modules_are_used() -> None:
    assert [
        f"{path.relative_to(SOURCE)}:{line}: {code}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, code in findings(path.read_text())
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "request._protocol",
        "request.protocol._payload_parser.feed_eof()",
        "loop._ready.clear()",
        'getattr(transport, "_sock")',
        "import _ssl",
        "from yaml._yaml import CParser",
        "from asyncio.events import _get_running_loop",
        "from aiohttp import web\nclass Server(web.Server):\n    def f(self): return self._kwargs",
        "from asyncio import Task\nclass Mine(Task[int]):\n    def f(self): self._step()",
    ],
)
def test_guard_finds(text: str) -> None:
    assert findings(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def __init__(self): self._a = 1\n    def same(self, o): return o._a",
        "from aiohttp import web\nclass S(web.Server):\n    def __init__(self): self._a = self._a",
        "point._replace(x=1)",
        "os._exit(1)",
        "a.__class__.__name__",
    ],
)
def test_guard_accepts(text: str) -> None:
    assert findings(text) == []


def test_guard_reads_the_whole_source() -> None:
    assert sum(1 for _ in SOURCE.rglob("*.py")) > 300
