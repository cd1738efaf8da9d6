# SPDX-License-Identifier: Apache-2.0
"""The list of all controllers, and which program runs which.

Nothing registers itself: what is not in this table does not exist. A new
controller is one line here (and one in the test that pins the sets). Its factory

    def notary(env: ControllerEnvironment) -> Controller

is imported when a program is about to run it, so listing, checking and completing
names costs no import of any controller.

The daemon runs all but the mock; every other program runs the controllers of one
group, and the mock's what it needs besides.
"""

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rdd.controllers.environment import ControllerEnvironment
    from rdd.runtime import Controller

RDD, APP, LIMA, CONTAINERS, MOCK = "rdd", "app", "lima", "containers", "mock"


@dataclass(frozen=True, slots=True)
class Entry:
    """One controller."""

    name: str
    group: str
    """What it can be selected by besides its name."""
    factory: str
    """Where its factory is: `module:function`."""
    needs: tuple[str, ...] = ()
    """Controllers without which it starts, but cannot do all of its work."""


_MIRRORS = ("container", "containernamespace", "image", "volume")

ENTRIES: tuple[Entry, ...] = (
    Entry("notary", RDD, "rdd.controllers.rdd.notary:notary"),
    Entry(
        "configmapreplicaset", RDD, "rdd.controllers.rdd.configmapreplicaset:configmapreplicaset"
    ),
    Entry("hostinfo", RDD, "rdd.controllers.rdd.hostinfo:hostinfo"),
    Entry("app", APP, "rdd.controllers.app.app:app", needs=("limavm", "engine")),
    Entry("demo", APP, "rdd.controllers.app.demo:demo"),
    Entry("k3s-versions", APP, "rdd.controllers.app.k3s_versions:k3s_versions"),
    Entry("kubernetes", APP, "rdd.controllers.app.kubernetes:kubernetes", needs=("app",)),
    Entry("diagnostics", APP, "rdd.controllers.app.diagnostics:diagnostics"),
    Entry("limavm", LIMA, "rdd.controllers.lima.limavm:limavm"),
    Entry("engine", CONTAINERS, "rdd.controllers.containers.engine:engine", needs=_MIRRORS),
    Entry("container", CONTAINERS, "rdd.controllers.containers.container:container"),
    Entry(
        "containernamespace",
        CONTAINERS,
        "rdd.controllers.containers.containernamespace:containernamespace",
    ),
    Entry("image", CONTAINERS, "rdd.controllers.containers.image:image"),
    Entry("volume", CONTAINERS, "rdd.controllers.containers.volume:volume"),
    Entry("mock", MOCK, "rdd.controllers.mock.controller:mock"),
)
"""All controllers, in the order in which they are named and started."""

CONTROLLERS: Mapping[str, Entry] = {entry.name: entry for entry in ENTRIES}


def of(*groups: str) -> tuple[str, ...]:
    """The controllers of these groups."""
    return tuple(entry.name for entry in ENTRIES if entry.group in groups)


EMBEDDED = of(RDD, APP, LIMA, CONTAINERS)
RDD_CONTROLLER = of(RDD)
APP_CONTROLLER = of(APP)
LIMA_CONTROLLER = of(LIMA)
CONTAINERS_CONTROLLER = of(CONTAINERS)
MOCK_CONTROLLER = (*of(MOCK), "k3s-versions")

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    RDD: RDD_CONTROLLER,
    APP: APP_CONTROLLER,
    LIMA: LIMA_CONTROLLER,
    CONTAINERS: CONTAINERS_CONTROLLER,
    MOCK: MOCK_CONTROLLER,
}
"""What each program beside the daemon runs, by the group it is named after."""


def groups(names: Collection[str], entries: Iterable[Entry] = ENTRIES) -> dict[str, str]:
    """The group of each of these controllers."""
    return {entry.name: entry.group for entry in entries if entry.name in names}


def make(
    names: Collection[str], env: "ControllerEnvironment", entries: Iterable[Entry] = ENTRIES
) -> list["Controller"]:
    """These controllers, in the order of the table; their modules are imported now."""
    return [_factory(entry)(env) for entry in entries if entry.name in names]


def preload(names: Collection[str], entries: Iterable[Entry] = ENTRIES) -> None:
    """Import the modules of these controllers; a thread can do so before they are needed."""
    for entry in entries:
        if entry.name in names:
            _factory(entry)


def unmet(names: Collection[str], entries: Iterable[Entry] = ENTRIES) -> list[str]:
    """What a selection leaves incomplete, one line for each controller concerned."""
    lines = []
    for entry in entries:
        missing = [name for name in entry.needs if name not in names]
        if entry.name in names and missing:
            lines.append(
                f"controller {entry.name} cannot do all of its work here without "
                f"{', '.join(missing)}"
            )
    return lines


def _factory(entry: Entry) -> "Callable[[ControllerEnvironment], Controller]":
    module, _, function = entry.factory.partition(":")
    made: Callable[[ControllerEnvironment], Controller] = getattr(
        importlib.import_module(module), function
    )
    return made
