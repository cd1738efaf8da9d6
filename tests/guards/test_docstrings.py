# SPDX-License-Identifier: Apache-2.0
"""Exported names are documented; inside a package, names and types speak for themselves.

Modules always need a docstring (ruff, D100): it explains the mechanism and its reason.
"""

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import rdd


def exporting() -> list[str]:
    """Names of all packages and modules that declare `__all__`."""
    found = []
    for info in pkgutil.walk_packages(rdd.__path__, "rdd."):
        spec = info.module_finder.find_spec(info.name, None)
        assert spec is not None and spec.origin is not None
        with open(spec.origin, encoding="utf-8") as source:
            if "\n__all__" in source.read():
                found.append(info.name)
    return found


def undocumented(module: ModuleType) -> list[str]:
    missing = []
    for name in module.__all__:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        # A generated docstring of a dataclass is its signature.
        if not own or own.startswith(f"{name}("):
            missing.append(name)
    return missing


def test_packages_declare_what_they_export() -> None:
    assert {"rdd.client", "rdd.runtime", "rdd.testing"} <= set(exporting())


@pytest.mark.parametrize("name", exporting())
def test_exported_names_have_docstrings(name: str) -> None:
    assert undocumented(importlib.import_module(name)) == []
