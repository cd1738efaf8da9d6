# SPDX-License-Identifier: Apache-2.0
"""Parsing of resourceVersion parameters."""

from rdd.api import errors
from rdd.apiserver.components import Core
from rdd.base import gotext

_UINT64_MAX = 2**64 - 1
_MAX_DIGITS = 4000  # Python converts no longer ones


def parse_version(version: str, *, is_list: bool = False) -> int:
    """Parse a resourceVersion.

    As in Kubernetes, other text than a number is a bad request for a list and a server
    error for a watch or a read.
    """
    why = ""
    if not (version.isascii() and version.isdigit()):
        why = "invalid syntax"
    elif len(version) > _MAX_DIGITS or int(version) > _UINT64_MAX:
        why = "value out of range"
    if not why:
        return int(version)
    shown = gotext.quote(version)
    text = f"resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: {why}"
    if is_list:
        raise errors.BadRequest(f"invalid resource version: {text}")
    raise errors.ApiError(text, code=500, reason="")


def check_not_future(core: Core, version: str, *, is_list: bool = False) -> int:
    """Parse a resourceVersion; raise Timeout for one that is not committed yet."""
    number = parse_version(version, is_list=is_list)
    if number > core.cache.revision:
        raise errors.Timeout(
            f"Timeout: Too large resource version: {number}, current: {core.cache.revision}",
            details={
                "causes": [
                    {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                ]
            },
            retry_after_s=1,
        )
    return number
