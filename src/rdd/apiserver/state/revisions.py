# SPDX-License-Identifier: Apache-2.0
"""Parsing of resourceVersion parameters."""

from rdd.api import errors
from rdd.apiserver.components import Core
from rdd.base import gotext


def parse_version(version: str) -> int:
    """Parse a resourceVersion; other text than a number is a server error, as in Kubernetes."""
    if not (version.isascii() and version.isdigit()):
        raise errors.ApiError(
            f"resourceVersion: Invalid value: {gotext.quote(version)}: strconv.ParseUint: "
            f"parsing {gotext.quote(version)}: invalid syntax",
            code=500,
            reason="",
        )
    return int(version)


def check_not_future(core: Core, version: str) -> int:
    """Parse a resourceVersion; raise Timeout for one that is not committed yet."""
    number = parse_version(version)
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
