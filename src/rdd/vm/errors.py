# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a machine; all are HostErrors, one line each that tells what to do."""

from rdd.host.errors import HostError


class MachineExists(HostError):
    """There is a complete instance of this name."""


class NotCreated(HostError):
    """There is no (complete) instance of this name."""


class Busy(HostError):
    """Something else is being done with this machine; try again when it has changed."""


class StartFailed(HostError):
    """The host agent did not come up."""

    def __init__(
        self, message: str, *, exit_code: int | None = None, log_tail: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.log_tail = log_tail


class StopFailed(HostError):
    """Something of a machine still runs after everything was tried."""
