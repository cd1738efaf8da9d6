# SPDX-License-Identifier: Apache-2.0
"""Sizes for people: decimal units as docker prints images, binary ones for disks and memory."""

import re

_DECIMAL = ("B", "kB", "MB", "GB", "TB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_size = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?) ?(?:([kmgtp])i?)?b?", re.IGNORECASE).fullmatch


def decimal(count: float) -> str:
    """Return a size such as `4.2 MB`."""
    value = float(count)
    for unit in _DECIMAL[:-1]:
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} {_DECIMAL[-1]}"


def binary(count: float) -> str:
    """Return a size such as `4.2 GiB`."""
    for unit in _BINARY:
        if count < 1024 or unit == _BINARY[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def parse_size(text: str) -> int | None:
    """Return the bytes of `4GiB`, `512m` or `1073741824` (factor 1024); None if invalid."""
    match = _size(text)
    if match is None:
        return None
    whole, _, fraction = match[1].partition(".")
    shift = _UNITS[(match[2] or "").lower()]
    # Integers: a float would lose bytes of large sizes.
    scaled = (int(whole + fraction) << shift) // 10 ** len(fraction)
    return scaled if scaled < 1 << 63 else None
