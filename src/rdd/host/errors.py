# SPDX-License-Identifier: Apache-2.0
"""What the operating system refused, told so that a person can act on it.

`HostError` carries one line: what was tried, on what, why it failed. It is
raised instead of a bare OSError, which is chained to it.
"""


class HostError(Exception):
    """The machine did not let us do something."""

    @classmethod
    def from_os(cls, action: str, error: OSError) -> "HostError":
        """Describe `error` as the reason why `action` (an infinitive) failed."""
        return cls(f"failed to {action}: {error.strerror or error}")
