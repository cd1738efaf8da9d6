# SPDX-License-Identifier: Apache-2.0
"""The core of the client and the blocking connection import nothing but the standard library."""

import sys

import pytest
from tests.programs import run_program

import rdd.client

CODE = "import sys, {module}; print(*(name.split('.')[0] for name in sys.modules))"
HEAVY = {"asyncio", "dataclasses", "inspect", "logging", "subprocess", "tempfile"}


@pytest.mark.parametrize(
    "module",
    [
        "rdd.client",
        "rdd.client.errors",
        "rdd.client.kubeconfig",
        "rdd.client.resources",
        "rdd.client.discovery",
        "rdd.client.tls",
        "rdd.client.blocking",
    ],
)
def test_core_imports_only_the_standard_library(module: str) -> None:
    done = run_program([sys.executable, "-c", CODE.format(module=module)], check=True)
    before = run_program([sys.executable, "-c", CODE.format(module="sys")], check=True)
    loaded = set(done.stdout.split()) - set(before.stdout.split()) - {"rdd"}
    assert loaded - set(sys.stdlib_module_names) == set()
    assert loaded & HEAVY == set()


def test_every_exported_name_can_be_imported() -> None:
    for name in rdd.client.__all__:
        assert getattr(rdd.client, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        rdd.client.Nope  # noqa: B018
