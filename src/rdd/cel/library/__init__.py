# SPDX-License-Identifier: Apache-2.0
"""The functions of the Kubernetes dialect of CEL, as of Kubernetes 1.36.

One module per library. Not enabled in Kubernetes, and therefore absent: the
math, encoders and bindings extensions and `string.reverse`.
"""

from rdd.cel.functions import Overload
from rdd.cel.library import (
    authorization,
    conversions,
    formats,
    lists,
    network,
    operators,
    optionals,
    quantities,
    regex,
    semver,
    sets,
    strings,
    time,
    urls,
)

_LIBRARIES = (
    operators.LIBRARY,
    conversions.LIBRARY,
    time.LIBRARY,
    strings.LIBRARY,
    lists.LIBRARY,
    regex.LIBRARY,
    sets.LIBRARY,
    optionals.LIBRARY,
    quantities.LIBRARY,
    network.LIBRARY,
    urls.LIBRARY,
    formats.LIBRARY,
    semver.LIBRARY,
    authorization.LIBRARY,
)


def _collect() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library.overloads:
            found.setdefault(overload.function, []).append(overload)
    return {name: tuple(overloads) for name, overloads in found.items()}


FUNCTIONS = _collect()
"""All functions by name."""
