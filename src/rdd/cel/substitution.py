# SPDX-License-Identifier: Apache-2.0
"""What type parameters stand for: unification, as in cel-go.

An assignment binds the parameters of both types, or nothing if they do not fit. A parameter that
was bound to a specific type is bound to dyn once dyn is assigned to it: the most general type wins.
"""

from operator import is_

from rdd.cel import types as t

# Types that null can stand in for.
_NULLABLE = frozenset((t.K_NULL, t.K_OBJECT, t.K_OPAQUE, t.K_TIMESTAMP, t.K_DURATION))


class Substitution:
    """What type parameters stand for."""

    def __init__(self) -> None:
        self._found: dict[str, t.Type] = {}
        self._undo: list[tuple[str, t.Type | None]] = []  # what the current assignment replaced
        self._fresh = 0

    def fresh(self) -> t.Type:
        """Return a fresh type parameter."""
        self._fresh += 1
        return t.param(f"_var{self._fresh}")

    def apply(self, candidate: t.Type, *, final: bool = False) -> t.Type:
        """Return the type with parameters replaced; what is still open becomes dyn if `final`."""
        if candidate.kind is t.K_PARAM:
            found = self._found.get(candidate.name)
            if found is not None:
                return self.apply(found, final=final)
            return t.DYN if final else candidate
        if not candidate.params:
            return candidate
        params = tuple([self.apply(p, final=final) for p in candidate.params])
        if all(map(is_, params, candidate.params)):
            return candidate
        return self._rebuilt(candidate, params)

    @staticmethod
    def _rebuilt(candidate: t.Type, params: tuple[t.Type, ...]) -> t.Type:
        return t.Type(candidate.kind, candidate.name, params, min_size=candidate.min_size)

    def assign_all(self, given: list[t.Type], formal: list[t.Type]) -> bool:
        """Return whether all types fit those of a signature; parameters are bound only if so."""
        if len(given) != len(formal):
            return False
        self._undo.clear()
        if all(self._fits(a, b) for a, b in zip(given, formal, strict=True)):
            return True
        for name, before in reversed(self._undo):
            if before is None:
                del self._found[name]
            else:
                self._found[name] = before
        return False

    def assign(self, first: t.Type, second: t.Type) -> bool:
        """Return whether two types fit each other."""
        return self.assign_all([first], [second])

    def _fits(self, first: t.Type, second: t.Type) -> bool:
        if second.kind is t.K_PARAM:
            fits, is_bound = self._bind(second, first)
            if fits or is_bound:
                return fits
        if first.kind is t.K_PARAM:
            return self._bind(first, second)[0]
        if first.is_dynamic or second.is_dynamic:
            return True
        if first.kind is t.K_NULL:
            return second.kind in _NULLABLE
        if second.kind is t.K_NULL:
            return first.kind in _NULLABLE
        if first.kind is t.K_TYPE:
            return second.kind is t.K_TYPE
        if first.kind != second.kind or first.name != second.name:
            return False
        if len(first.params) != len(second.params):
            return False
        return all(self._fits(a, b) for a, b in zip(first.params, second.params, strict=True))

    def _bind(self, parameter: t.Type, other: t.Type) -> tuple[bool, bool]:
        """Return whether a type can stand for a parameter, and whether it was bound before."""
        if other.kind is t.K_PARAM and other.name == parameter.name:
            return True, True
        found = self._found.get(parameter.name)
        if found is None:
            if self._occurs(parameter.name, other):
                return False, False
            self._record(parameter.name, other)
            return True, False
        if t.same(other, found):
            return True, True
        if not self._fits(other, found):
            return False, True
        general = other if is_less_specific(other, found) else found
        if not self._occurs(parameter.name, general):
            self._record(parameter.name, general)
        return True, True

    def _record(self, name: str, found: t.Type) -> None:
        self._undo.append((name, self._found.get(name)))
        self._found[name] = found

    def _occurs(self, name: str, candidate: t.Type) -> bool:
        return _mentions(self.apply(candidate), name)


def is_less_specific(first: t.Type, second: t.Type) -> bool:
    """Return whether the first type is as general as the second, or more."""
    if first.is_dynamic or first.kind is t.K_PARAM:
        return True
    if second.is_dynamic or second.kind is t.K_PARAM or first.kind != second.kind:
        return False
    if not first.params or first.kind is t.K_TYPE:
        return first.kind is t.K_TYPE or t.same(first, second)
    return len(first.params) == len(second.params) and all(
        map(is_less_specific, first.params, second.params)
    )


def _mentions(candidate: t.Type, name: str) -> bool:
    if candidate.kind is t.K_PARAM:
        return candidate.name == name
    return any(_mentions(p, name) for p in candidate.params)
