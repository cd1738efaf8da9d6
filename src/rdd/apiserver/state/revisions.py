# SPDX-License-Identifier: Apache-2.0
"""The resourceVersion of a query as a revision of the store."""

from rdd.api import errors
from rdd.apiserver.core import Core
from rdd.base import gotext


def parse_version(version: str) -> int:
    """A resourceVersion from a query; what is no number is the server's error, as upstream."""
    if not (version.isascii() and version.isdigit()):
        raise errors.ApiError(
            f"resourceVersion: Invalid value: {gotext.quote(version)}: strconv.ParseUint: "
            f"parsing {gotext.quote(version)}: invalid syntax",
            code=500,
            reason="",
        )
    return int(version)


def check_not_future(core: Core, version: str) -> int:
    """Refuse a resourceVersion that has not happened yet."""
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
