# SPDX-License-Identifier: Apache-2.0
"""Errors of operations on the control plane; each has one line for the user."""


class ServiceError(Exception):
    """An operation on the control plane failed."""


class DeadlineExceeded(ServiceError):
    """A wait ended at its deadline."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: context deadline exceeded")


class VersionMismatch(ServiceError):
    """The running daemon has another version than this program."""

    def __init__(self, name: str, *, running: str, ours: str) -> None:
        super().__init__(
            f'"{name}" control plane runs version {running}, this is version {ours}; '
            "run `rdd service stop` and start it again"
        )
