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

    def assign_all(self, targets: list[t.Type], sources: list[t.Type]) -> bool:
        """Return whether each source fits its target; parameters are bound only if all do."""
        if len(targets) != len(sources):
            return False
        self._undo.clear()
        if all(self._assign(a, b) for a, b in zip(targets, sources, strict=True)):
            return True
        for name, before in reversed(self._undo):
            if before is None:
                del self._found[name]
            else:
                self._found[name] = before
        return False

    def assign(self, target: t.Type, source: t.Type) -> bool:
        """Return whether a value of the source type can be used as the target type."""
        return self.assign_all([target], [source])

    def _assign(self, target: t.Type, source: t.Type) -> bool:
        if source.kind is t.K_PARAM:
            return self._bind(source, target, is_source=True)
        if target.kind is t.K_PARAM:
            return self._bind(target, source, is_source=False)
        if target.is_dynamic or source.is_dynamic:
            return True
        if target.kind is t.K_NULL:
            return source.kind in _NULLABLE
        if source.kind is t.K_NULL:
            return target.kind in _NULLABLE
        if target.kind is t.K_TYPE:
            return source.kind is t.K_TYPE
        if target.kind != source.kind or target.name != source.name:
            return False
        if len(target.params) != len(source.params):
            return False
        return all(self._assign(a, b) for a, b in zip(target.params, source.params, strict=True))

    def _bind(self, parameter: t.Type, other: t.Type, *, is_source: bool) -> bool:
        found = self._found.get(parameter.name)
        if found is not None:
            fits = self._assign(other, found) if is_source else self._assign(found, other)
            if fits and found.is_dynamic is False and other.is_dynamic:
                self._record(parameter.name, other)  # the most general type wins
            return fits
        if other.kind is t.K_PARAM and other.name == parameter.name:
            return True
        if self._occurs(parameter.name, other):
            return False
        self._record(parameter.name, other)
        return True

    def _record(self, name: str, found: t.Type) -> None:
        self._undo.append((name, self._found.get(name)))
        self._found[name] = found

    def _occurs(self, name: str, candidate: t.Type) -> bool:
        return _mentions(self.apply(candidate), name)


def _mentions(candidate: t.Type, name: str) -> bool:
    if candidate.kind is t.K_PARAM:
        return candidate.name == name
    return any(_mentions(p, name) for p in candidate.params)
