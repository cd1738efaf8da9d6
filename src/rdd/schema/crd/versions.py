# SPDX-License-Identifier: Apache-2.0
"""The order of versions, and warnings about deprecated versions.

A module of its own, because every start of a server imports it but not the validation of CRDs.
"""

from collections.abc import Mapping
from typing import Any


def deprecation_warning(spec: Mapping[str, Any], version: str) -> str:
    """Return the warning of every request to a version; empty if it is not deprecated.

    It refers to the newest version that is served and not deprecated, if that one is newer than
    the version itself.
    """
    entry = next((v for v in spec["versions"] if v["name"] == version), None)
    if entry is None or not entry.get("deprecated"):
        return ""
    if entry.get("deprecationWarning") is not None:
        return str(entry["deprecationWarning"])
    kind, group = spec["names"]["kind"], spec["group"]
    text = f"{group}/{version} {kind} is deprecated"
    candidates = [
        v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")
    ]
    if candidates:
        newest = max(candidates, key=version_priority)
        if version_priority(newest) > version_priority(version):
            return f"{text}; use {group}/{newest} {kind}"
    return text


def version_priority(name: str) -> tuple[int, int, int, list[int]]:
    """Return the sort key of a version: v2 > v1 > v1beta2 > v1alpha1 > others (by name)."""
    rest = name.removeprefix("v")
    major = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    stage = rest[len(major) :]
    if rest != name and major and not major.startswith("0"):
        if not stage:
            return (3, int(major), 0, [])
        for rank, word in ((2, "beta"), (1, "alpha")):
            minor = stage.removeprefix(word)
            if minor != stage and minor.isascii() and minor.isdigit() and minor[0] != "0":
                return (rank, int(major), int(minor), [])
    # Other names sort alphabetically, the first one highest.
    return (0, 0, 0, [-ord(c) for c in name] + [1])
