# SPDX-License-Identifier: Apache-2.0
"""Suggestions for mistyped names: `did you mean "status"?`.

The nearest name by edit distance, in which swapped neighbours count as one edit, as git
and cobra compute it. Imported by errors only. Long words have no nearest name, so the
cost is bounded.
"""

from collections.abc import Iterable

from rdd.base.gotext import quote

_MAX_LENGTH = 64


def nearest(given: str, names: Iterable[str]) -> str:
    """Return the name that `given` most likely stands for; empty if none is near.

    A dotted name is also found by its last part.
    """
    word = given.lower()
    if not word or len(word) > _MAX_LENGTH:
        return ""
    allowed = min(max(1, len(word.rpartition(".")[2]) // 3), 3)
    ranked = sorted(
        (_distance(word, name), not name.lower().startswith(word), name)
        for name in set(names)
        if name
    )
    if not ranked or ranked[0][0] > allowed or ranked[0][0] >= len(word):
        return ""
    return ranked[0][2]


def did_you_mean(given: str, names: Iterable[str], *, form: str = "{}") -> str:
    """Return `did you mean "name"?` with the name written as in `form`; empty without one."""
    name = nearest(given, names)
    return f"did you mean {quote(form.format(name))}?" if name else ""


def _distance(word: str, name: str) -> int:
    other = name.lower()
    last = other.rpartition(".")[2]
    found = _edits(word, other)
    if last != other and "." not in word:
        found = min(found, _edits(word, last))
    # An incomplete word is nearer to what it begins than to a different word.
    return 1 if found > 1 and len(word) > 2 and other.startswith(word) else found


def _edits(left: str, right: str) -> int:
    """Return the number of insertions, deletions, replacements and swaps of neighbours."""
    if len(right) > 2 * _MAX_LENGTH:
        return _MAX_LENGTH
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row = row, [i]
        for j, b in enumerate(right, 1):
            cost = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before = previous
    return row[-1]
