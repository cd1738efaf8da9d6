# SPDX-License-Identifier: Apache-2.0
"""The error that a failed operation of the operating system raises.

`HostError` carries one line for the user: the operation, its object, the reason. It is raised
instead of a bare OSError, which is chained to it.
"""


class HostError(Exception):
    """An operation of the operating system failed."""

    @classmethod
    def from_os(cls, action: str, error: OSError) -> "HostError":
        """Return the error of an `action` (an infinitive) that failed with `error`."""
        return cls(f"failed to {action}: {error.strerror or error}")
