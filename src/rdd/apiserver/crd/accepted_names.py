# SPDX-License-Identifier: Apache-2.0
"""The names that the CRDs of each group hold.

Names conflict within a group only, and the name of a CRD ends with its group. What a CRD holds is
decoded once per change of it: to decode all others for each would make the creation or deletion
of a thousand CRDs a million decodings.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rdd.api import names
from rdd.api.conditions import conditions_of, is_true
from rdd.apiserver.resources import Resource
from rdd.apiserver.state.entries import ObjectChange


class HeldNames(NamedTuple):
    """The names of one CRD."""

    resources: frozenset[str]
    """Plural, singular and short names."""
    kinds: frozenset[str]
    is_accepted: bool
    """Whether it has all names that it asks for."""


class AcceptedNames:
    """Follows the CRDs of the cache."""

    def __init__(self, definitions: Resource) -> None:
        self._definitions = definitions
        self._held: dict[str, dict[str, HeldNames | None]] = {}
        """Group → CRD → its names; None: to be decoded."""
        for entry in definitions.cache.entries():
            self._note(entry.name)
        definitions.cache.listeners.append(self._changed)

    def _changed(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            self._note(change.entry.name)

    def _note(self, name: str) -> None:
        self._held.setdefault(group_of(name), {})[name] = None

    def _of_group(self, group: str) -> Iterator[tuple[str, HeldNames]]:
        found = self._held.get(group, {})
        for name, held in list(found.items()):
            if held is None:
                held = self._decoded(name)
                if held is None:
                    del found[name]
                    continue
                found[name] = held
            yield name, held
        if not found:
            self._held.pop(group, None)

    def _decoded(self, name: str) -> HeldNames | None:
        entry = self._definitions.cache.get("", name)
        if entry is None:
            return None
        crd = self._definitions.object(entry)
        held = (crd.get("status") or {}).get("acceptedNames") or {}
        resources = {held.get("plural"), held.get("singular"), *(held.get("shortNames") or ())}
        kinds = {held.get("kind"), held.get("listKind")}
        return HeldNames(
            frozenset(filter(None, resources)),
            frozenset(filter(None, kinds)),
            is_true(conditions_of(crd), names.NAMES_ACCEPTED),
        )

    def taken(self, name: str) -> tuple[set[str], set[str]]:
        """Return the resource names and kinds that other CRDs of the group hold."""
        resources: set[str] = set()
        kinds: set[str] = set()
        for other, held in self._of_group(group_of(name)):
            if other != name:
                resources |= held.resources
                kinds |= held.kinds
        return resources, kinds

    def waiting(self, name: str) -> list[str]:
        """Return the CRDs of the group that lack names, which this one may have held."""
        return [other for other, held in self._of_group(group_of(name)) if not held.is_accepted]


def group_of(name: str) -> str:
    """Return the group of a CRD from its name, `<plural>.<group>`."""
    return name.partition(".")[2]
