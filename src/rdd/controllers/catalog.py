# SPDX-License-Identifier: Apache-2.0
"""The table of all controllers, and the controllers of each program.

Nothing registers itself on import. A new controller is one line here (and one in the test that
pins the sets). Its factory

    def notary(env: ControllerEnvironment) -> Controller

is imported when a program runs it, so listing, validating and completing names imports no
controller.

The daemon runs all but the mock; every other program runs the controllers of one group. The
group `resources` runs in the daemon only: its cache is that of the user.
"""

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rdd.controllers.environment import ControllerEnvironment
    from rdd.runtime import Controller

RDD, APP, LIMA, CONTAINERS, MOCK = "rdd", "app", "lima", "containers", "mock"
RESOURCES = "resources"
_OF_MACHINE = frozenset({APP, LIMA, CONTAINERS, RESOURCES})


@dataclass(frozen=True, slots=True)
class ControllerEntry:
    """One controller."""

    name: str
    group: str
    """The group by which it can be selected, too."""
    factory: str
    """Its factory: `module:function`."""
    needs: tuple[str, ...] = ()
    """Controllers without which it starts, but with limited functionality."""

    @property
    def is_of_machine(self) -> bool:
        """Whether its objects stand for things of one machine; the others touch objects only."""
        return self.group in _OF_MACHINE or self.name == "hostinfo"


_MIRRORS = ("container", "containernamespace", "image", "network", "volume")

ENTRIES: tuple[ControllerEntry, ...] = (
    ControllerEntry("notary", RDD, "rdd.controllers.rdd.notary:notary"),
    ControllerEntry(
        "configmapreplicaset", RDD, "rdd.controllers.rdd.configmapreplicaset:configmapreplicaset"
    ),
    ControllerEntry("hostinfo", RDD, "rdd.controllers.rdd.hostinfo:hostinfo"),
    ControllerEntry("resource", RESOURCES, "rdd.controllers.resources.controller:resource"),
    ControllerEntry("urlmonitor", RESOURCES, "rdd.controllers.resources.controller:urlmonitor"),
    ControllerEntry("app", APP, "rdd.controllers.app.app:app", needs=("limavm", "engine")),
    ControllerEntry("demo", APP, "rdd.controllers.app.demo:demo"),
    ControllerEntry("k3s-versions", APP, "rdd.controllers.app.k3s_versions:k3s_versions"),
    ControllerEntry("kubernetes", APP, "rdd.controllers.app.kubernetes:kubernetes", needs=("app",)),
    ControllerEntry("diagnostics", APP, "rdd.controllers.app.diagnostics.controller:diagnostics"),
    ControllerEntry("limavm", LIMA, "rdd.controllers.lima.limavm:limavm"),
    ControllerEntry("snapshot", LIMA, "rdd.controllers.lima.snapshot:snapshot", needs=("limavm",)),
    ControllerEntry(
        "engine", CONTAINERS, "rdd.controllers.containers.engine:engine", needs=_MIRRORS
    ),
    ControllerEntry("container", CONTAINERS, "rdd.controllers.containers.container:container"),
    ControllerEntry(
        "containernamespace",
        CONTAINERS,
        "rdd.controllers.containers.containernamespace:containernamespace",
    ),
    ControllerEntry("image", CONTAINERS, "rdd.controllers.containers.image:image"),
    ControllerEntry("network", CONTAINERS, "rdd.controllers.containers.network:network"),
    ControllerEntry("volume", CONTAINERS, "rdd.controllers.containers.volume:volume"),
    ControllerEntry("mock", MOCK, "rdd.controllers.mock.controller:mock"),
)
"""All controllers, in the order in which they are listed and started."""

CONTROLLERS: Mapping[str, ControllerEntry] = {entry.name: entry for entry in ENTRIES}


def in_groups(*groups: str) -> tuple[str, ...]:
    """Return the controllers of these groups."""
    return tuple(entry.name for entry in ENTRIES if entry.group in groups)


EMBEDDED = in_groups(RDD, RESOURCES, APP, LIMA, CONTAINERS)
RDD_CONTROLLER = in_groups(RDD)
APP_CONTROLLER = in_groups(APP)
LIMA_CONTROLLER = in_groups(LIMA)
CONTAINERS_CONTROLLER = in_groups(CONTAINERS)
MOCK_CONTROLLER = (*in_groups(MOCK), "k3s-versions")

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    RDD: RDD_CONTROLLER,
    APP: APP_CONTROLLER,
    LIMA: LIMA_CONTROLLER,
    CONTAINERS: CONTAINERS_CONTROLLER,
    MOCK: MOCK_CONTROLLER,
}
"""The controllers of each program besides the daemon, by its group."""


def groups(names: Collection[str], entries: Iterable[ControllerEntry] = ENTRIES) -> dict[str, str]:
    """Return the group of each of these controllers."""
    return {entry.name: entry.group for entry in entries if entry.name in names}


def make_controllers(
    names: Collection[str],
    env: "ControllerEnvironment",
    entries: Iterable[ControllerEntry] = ENTRIES,
) -> list["Controller"]:
    """Import and create these controllers, in the order of the table."""
    return [_factory(entry)(env) for entry in entries if entry.name in names]


def preload(names: Collection[str], entries: Iterable[ControllerEntry] = ENTRIES) -> None:
    """Import the modules of these controllers, so that a thread can do it in advance."""
    for entry in entries:
        if entry.name in names:
            _factory(entry)


def unmet_needs(names: Collection[str], entries: Iterable[ControllerEntry] = ENTRIES) -> list[str]:
    """Return one line for each selected controller that misses another one."""
    lines = []
    for entry in entries:
        missing = [name for name in entry.needs if name not in names]
        if entry.name in names and missing:
            lines.append(
                f"controller {entry.name} has limited functionality without {', '.join(missing)}"
            )
    return lines


def _factory(entry: ControllerEntry) -> "Callable[[ControllerEnvironment], Controller]":
    module, _, function = entry.factory.partition(":")
    factory: Callable[[ControllerEnvironment], Controller] = getattr(
        importlib.import_module(module), function
    )
    return factory
