# SPDX-License-Identifier: Apache-2.0
"""The command table names modules as text, so that a call imports only its own; they exist."""

import importlib
import importlib.util

import pytest
from tests.guards.test_docs import commands

from rdd.cli.commands.declarations import ROOT
from rdd.cli.framework.types import Command
from rdd.controllers import catalog
from rdd.kubectl.main import VERBS


@pytest.mark.parametrize(
    ("name", "module"),
    [(name, found.module) for name, found in commands(ROOT) if isinstance(found, Command)],
)
def test_command_has_a_module_that_runs_it(name: str, module: str) -> None:
    assert callable(importlib.import_module(module).run), name


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_kubectl_verb_has_a_module_that_runs_it(verb: str) -> None:
    assert callable(importlib.import_module(f"rdd.kubectl.verbs.{verb.replace('-', '_')}").run)


@pytest.mark.parametrize("entry", catalog.ENTRIES, ids=lambda entry: entry.name)
def test_controller_has_a_factory(entry: catalog.ControllerEntry) -> None:
    module, _, function = entry.factory.partition(":")
    assert callable(getattr(importlib.import_module(module), function))
