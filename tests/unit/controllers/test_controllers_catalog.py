# SPDX-License-Identifier: Apache-2.0
import importlib.util

import pytest

from rdd.controllers import catalog
from rdd.controllers.catalog import ControllerEntry

# The exact controllers of each program. Add new controllers here.
GROUPS: dict[str, set[str]] = {
    "RDD_CONTROLLER": {"notary", "configmapreplicaset", "hostinfo"},
    "APP_CONTROLLER": {"app", "demo", "k3s-versions", "kubernetes", "diagnostics"},
    "LIMA_CONTROLLER": {"limavm", "snapshot"},
    "CONTAINERS_CONTROLLER": {
        "engine",
        "container",
        "containernamespace",
        "image",
        "network",
        "volume",
    },
}
IN_DAEMON_ONLY = {"resource", "urlmonitor"}
PROGRAMS: dict[str, set[str]] = {
    "EMBEDDED": {*IN_DAEMON_ONLY, *(name for names in GROUPS.values() for name in names)},
    **GROUPS,
    "MOCK_CONTROLLER": {"mock", "k3s-versions"},
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_runs_exactly_these_controllers(program: str) -> None:
    names: tuple[str, ...] = getattr(catalog, program)
    assert set(names) == PROGRAMS[program]
    assert len(names) == len(set(names))


def test_every_controller_belongs_to_at_most_one_program_besides_the_daemon() -> None:
    external = [name for names in GROUPS.values() for name in names]
    assert sorted([*external, *IN_DAEMON_ONLY, "mock"]) == sorted(catalog.CONTROLLERS)


def test_program_is_named_after_its_group() -> None:
    for group, names in catalog.PROGRAMS.items():
        assert set(catalog.in_groups(group)) <= set(names)
        assert names == getattr(catalog, f"{group.upper()}_CONTROLLER")


@pytest.mark.parametrize("entry", catalog.ENTRIES, ids=lambda entry: entry.name)
def test_entry_refers_to_an_existing_module_and_controllers(entry: ControllerEntry) -> None:
    module, _, function = entry.factory.partition(":")
    assert importlib.util.find_spec(module) is not None
    assert function.isidentifier()
    assert set(entry.needs) <= set(catalog.CONTROLLERS)


def test_names_of_groups_and_controllers_are_unambiguous() -> None:
    groups = {entry.group for entry in catalog.ENTRIES}
    for entry in catalog.ENTRIES:
        assert entry.name not in groups or entry.name == entry.group


def test_describes_unmet_needs_of_a_selection() -> None:
    entries = (
        ControllerEntry("app", "app", "m:app", needs=("limavm", "engine")),
        ControllerEntry("limavm", "lima", "m:limavm"),
        ControllerEntry("engine", "containers", "m:engine"),
    )
    assert catalog.unmet_needs({"app", "limavm"}, entries) == [
        "controller app has limited functionality without engine"
    ]
    assert catalog.unmet_needs({"limavm"}, entries) == []
    assert catalog.unmet_needs({"app", "limavm", "engine"}, entries) == []
