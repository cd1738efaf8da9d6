# SPDX-License-Identifier: Apache-2.0
"""Errors of the toolbox, apart from `unpacking`, whose modules the daemon rarely needs."""

from rdd.host.errors import FailureReason, HostError


class BrokenArchive(HostError):
    """The archive is damaged or has content that no archive of programs has."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(
            f'"{source}" was rejected: {problem}; nothing was installed',
            reason=FailureReason.INVALID_SOURCE,
        )
