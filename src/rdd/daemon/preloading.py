# SPDX-License-Identifier: Apache-2.0
"""Imports that a start runs in a thread, while its stages wait for the disk."""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rdd.controllers import catalog
from rdd.controllers.catalog import ControllerEntry

if TYPE_CHECKING:
    from rdd.daemon.managers.embedded import Embedded

# Modules that only the first CRD needs: loading them takes 40 ms.
_FIRST_CRD = (
    "schema.crd.validation",
    "schema.validate",
    "schema.rules.checks",
    "schema.rules.evaluation",
    "api.apply",
)


def load_controllers(names: Sequence[str], entries: Sequence[ControllerEntry]) -> "type[Embedded]":
    """Import the controllers and what serves them."""
    from rdd.daemon.managers.embedded import Embedded

    importlib.import_module("rdd.daemon.managers.passthrough_backends")
    catalog.preload(names, entries)
    return Embedded


def load_schemas() -> None:
    """Import what only the first CRD needs."""
    for module in _FIRST_CRD:
        importlib.import_module(f"rdd.{module}")
