# SPDX-License-Identifier: Apache-2.0
"""Comprehensions as loops.

A comprehension is a fold in the tree, but each comes from a macro, and each
macro has a plain loop that does the same: `all` stops at the first false, `map`
appends to a list. `all` and `exists` forgive errors of single elements when
another element decides the answer. Every iteration pays its cost before it runs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rdd.cel import types as t
from rdd.cel.closures import Frame, Run
from rdd.cel.errors import CostExceeded, EvaluationError, NoSuchOverload
from rdd.cel.estimates import LIST_COST
from rdd.cel.library.operators import shown_key
from rdd.cel.readers import Reader, reader


def bind(slot: int, value: Run, result: Run) -> Run:
    """Return a local variable around a result."""

    def run(frame: Frame) -> Any:
        frame[slot] = value(frame)
        return result(frame)

    return run


@dataclass(frozen=True, slots=True)
class Source:
    """What a loop fills per round: one slot, or two for an index or key and its value."""

    first: int
    second: int  # 0 when there is one variable only
    convert: Reader | None

    def singles(self, container: Any) -> Iterable[Any]:
        """Return the elements of a list or the keys of a map."""
        if not isinstance(container, list | dict):
            raise NoSuchOverload()
        if self.convert is not None and isinstance(container, list):
            return map(self.convert, container)
        return container

    def pairs(self, container: Any) -> Iterable[tuple[Any, Any]]:
        """Return indices or keys, with values."""
        if isinstance(container, list):
            pairs: Iterable[tuple[Any, Any]] = enumerate(container)
        elif isinstance(container, dict):
            pairs = container.items()
        else:
            raise NoSuchOverload()
        if self.convert is not None:
            convert = self.convert
            return ((key, convert(value)) for key, value in pairs)
        return pairs


def element_reader(container: t.Type, *, is_double: bool) -> Reader | None:
    """Return the conversion of what a loop over a type sees."""
    if container.kind is t.K_LIST:
        return reader(container.params[0])
    if container.kind is t.K_MAP and is_double:
        return reader(container.params[1])
    return None


_Parts = list[tuple[Run, int]]


def _iterate(items: Run, source: Source, cost: int) -> Callable[[Frame], Iterable[Any]]:
    """Yield an iterator that fills the variables and pays for each round."""
    first, second = source.first, source.second
    if source.second:

        def pairs(frame: Frame) -> Iterable[Any]:
            for key, value in source.pairs(items(frame)):
                frame[0] -= cost
                if frame[0] < 0:
                    raise CostExceeded(is_total=False)
                frame[first] = key
                frame[second] = value
                yield key

        return pairs

    def singles(frame: Frame) -> Iterable[Any]:
        for item in source.singles(items(frame)):
            frame[0] -= cost
            if frame[0] < 0:
                raise CostExceeded(is_total=False)
            frame[first] = item
            yield item

    return singles


def _quantifier(decisive: bool) -> Callable[[Run, Source, _Parts], Run]:
    """Return `all` is decided by a false, `exists` by a true."""
    undecided = not decisive
    overhead = 4 if decisive else 3  # the condition and the accumulator of the fold

    def build(items: Run, source: Source, parts: _Parts) -> Run:
        ((predicate, cost),) = parts
        rounds = _iterate(items, source, cost + overhead)

        def run(frame: Frame) -> bool:
            error: EvaluationError | None = None
            for _ in rounds(frame):
                try:
                    value = predicate(frame)
                except EvaluationError as caught:
                    error = error or caught
                    continue
                if value is decisive:
                    return not undecided
                if value is not undecided:
                    error = error or NoSuchOverload()
            if error is not None:
                raise error
            return undecided

        return run

    return build


def _exists_one(items: Run, source: Source, parts: _Parts) -> Run:
    ((predicate, cost),) = parts
    rounds = _iterate(items, source, cost + 2)

    def run(frame: Frame) -> bool:
        count = 0
        for _ in rounds(frame):
            count += _truth(predicate(frame))
        return count == 1

    return run


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise NoSuchOverload()


def _split(parts: _Parts) -> tuple[Run | None, Run, int]:
    """Return the filter, the transformation and the cost of a round."""
    cost = sum(each for _, each in parts) + 2 + LIST_COST
    return (parts[0][0] if len(parts) == 2 else None), parts[-1][0], cost


def _map(items: Run, source: Source, parts: _Parts) -> Run:
    predicate, transform, cost = _split(parts)
    rounds = _iterate(items, source, cost)
    if predicate is None:
        return lambda frame: [transform(frame) for _ in rounds(frame)]
    test = predicate
    return lambda frame: [transform(frame) for _ in rounds(frame) if _truth(test(frame))]


def _filter(items: Run, source: Source, parts: _Parts) -> Run:
    ((predicate, cost),) = parts
    rounds = _iterate(items, source, cost + 3 + LIST_COST)
    return lambda frame: [item for item in rounds(frame) if _truth(predicate(frame))]


def _transform_map(items: Run, source: Source, parts: _Parts) -> Run:
    predicate, transform, cost = _split(parts)
    rounds = _iterate(items, source, cost)

    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key in rounds(frame):
            if predicate is None or _truth(predicate(frame)):
                result[key] = transform(frame)
        return result

    return run


def _transform_map_entry(items: Run, source: Source, parts: _Parts) -> Run:
    predicate, transform, cost = _split(parts)
    rounds = _iterate(items, source, cost)

    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for _ in rounds(frame):
            if predicate is not None and not _truth(predicate(frame)):
                continue
            entries = transform(frame)
            if not isinstance(entries, dict):
                raise NoSuchOverload()
            for key, value in entries.items():
                if key in result:
                    raise EvaluationError(f"insert failed: key {shown_key(key)} already exists")
                result[key] = value
        return result

    return run


SHAPES: dict[str, Callable[[Run, Source, _Parts], Run]] = {
    "all": _quantifier(False),
    "exists": _quantifier(True),
    "exists_one": _exists_one,
    "map": _map,
    "filter": _filter,
    "transform_map": _transform_map,
    "transform_map_entry": _transform_map_entry,
}
"""How to build the loop of each macro: from its range, its variables and its parts."""
