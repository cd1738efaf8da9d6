# SPDX-License-Identifier: Apache-2.0
"""Errors about machines; all are HostErrors, one line each, the fix last."""

from rdd.host.errors import FailureReason, HostError


class MachineExists(HostError):
    """A complete instance of this name exists."""


class NotCreated(HostError):
    """No complete instance of this name exists."""


class Busy(HostError):
    """The machine is in a state, or in an operation, that excludes the request; retry later."""


class StartFailed(HostError):
    """The host agent did not start."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        log_tail: tuple[str, ...] = (),
        reason: FailureReason | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message, reason=reason, remedy=remedy)
        self.exit_code = exit_code
        self.log_tail = log_tail


class StopFailed(HostError):
    """A process of a machine still runs after the forced stop."""
