# SPDX-License-Identifier: Apache-2.0
"""The error that a failed operation of the operating system raises.

`HostError` carries one line for the user: the operation, its object, the reason. It is raised
instead of a bare OSError, which is chained to it. A failure that no retry resolves has a
`FailureReason`: commands then end at once instead of waiting, and show the remedy.
"""

import errno
from enum import StrEnum


class FailureReason(StrEnum):
    """Why an operation failed, if only the user can help."""

    DEVICE_CLOSED = "DeviceClosed"  # a device, such as /dev/net/tun, is not open to this user
    DISK_FULL = "DiskFull"
    INVALID_SOURCE = "InvalidSource"  # a file to download is missing on its server, or another
    NO_DRIVER = "NoDriver"  # no driver can run the machine
    NO_NETWORK = "NoNetwork"  # a server cannot be reached from this host
    NOT_ALLOWED = "NotAllowed"  # by the deployment profile
    NO_PERMISSION = "NoPermission"
    NOT_INSTALLED = "NotInstalled"  # a program is missing
    PATH_TOO_LONG = "PathTooLong"  # for a unix socket


_BY_ERRNO = {
    errno.EACCES: FailureReason.NO_PERMISSION,
    errno.EPERM: FailureReason.NO_PERMISSION,
    errno.EROFS: FailureReason.NO_PERMISSION,
    errno.ENOSPC: FailureReason.DISK_FULL,
    errno.EDQUOT: FailureReason.DISK_FULL,
}


class HostError(Exception):
    """An operation of the operating system failed."""

    def __init__(
        self, message: str = "", *, reason: FailureReason | None = None, remedy: str = ""
    ) -> None:
        super().__init__(message)
        self.reason = reason
        """Why a retry is useless; None if it may succeed."""
        self.remedy = remedy
        """A command that resolves the failure; empty if there is none."""

    @classmethod
    def from_os(cls, action: str, error: OSError) -> "HostError":
        """Return the error of an `action` (an infinitive) that failed with `error`."""
        reason = _BY_ERRNO.get(error.errno or 0)
        return cls(f"failed to {action}: {error.strerror or error}", reason=reason)
