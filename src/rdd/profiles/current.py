# SPDX-License-Identifier: Apache-2.0
"""The profile that applies now.

Each question looks whether the files in the places have changed and reads them only then, so a
change is in force for the next request, without a notification that could be late or lost.
`watching` calls back after a change for those who have to act on it by themselves.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.host.errors import HostError
from rdd.host.file_watcher import FileWatcher
from rdd.instance import Instance
from rdd.profiles.places import Places
from rdd.profiles.reading import Signature, signature

if TYPE_CHECKING:
    from rdd.fetch.sources import Sources
    from rdd.profiles.rules import Rules

log = logging.getLogger("rdd.profiles")


class CurrentProfile:
    """Reads the profile of one instance when it has changed. Thread-safe."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._signature: Signature | None = None
        self._rules: Rules | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, instance: Instance) -> "CurrentProfile":
        return cls(Places.of(instance))

    def rules(self) -> "Rules | None":
        """Return the rules that apply; None without a profile."""
        seen = signature(self.places)
        if seen == self._signature:
            return self._rules
        if not any(seen):
            self._rules, self._signature = None, seen
            return None
        from rdd.profiles.parsing import load  # YAML and schemas: only if there is a profile

        with self._lock:
            # The signature is older than the content: a change in between is seen next time.
            self._rules = load(self.places)
            self._signature = seen
        return self._rules


def sources_of(instance: Instance) -> "Sources":
    """Return what may be fetched for an instance now."""
    from rdd.fetch.sources import EVERYTHING

    rules = CurrentProfile.of(instance).rules()
    return rules.sources if rules is not None else EVERYTHING


@contextlib.contextmanager
def watching(places: Places, on_change: Callable[[], None]) -> Iterator[None]:
    """Call `on_change` after changes of the profile, while the block runs.

    Directories that do not exist yet are expected in the nearest one above that does.
    """
    changes = FileWatcher()
    watched: dict[Path, int] = {}

    def follow() -> None:
        wanted = {_existing(place.directory) for place in places}
        for path in set(watched) - wanted:
            changes.unwatch(watched.pop(path))
        for path in wanted - set(watched):
            try:
                watched[path] = changes.watch(path, changed)
            except HostError as error:
                log.warning("changes of the deployment profile may be late: %s", error)

    seen = signature(places)

    def changed() -> None:
        nonlocal seen
        follow()
        now = signature(places)
        if now != seen:
            seen = now
            on_change()

    try:
        follow()
        yield
    finally:
        changes.close()


def _existing(path: Path) -> Path:
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path
