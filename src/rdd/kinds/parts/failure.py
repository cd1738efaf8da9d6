# SPDX-License-Identifier: Apache-2.0
"""Failure: why a machine was not created or started, if only the user can help."""

from rdd.kinds.struct import UNSET, Struct, field


class Failure(Struct):
    """A failure that no retry resolves; the message is that of the condition."""

    reason: str = field(
        "DeviceClosed, DiskFull, InvalidSource, NoDriver, NoNetwork, NoPermission, NotAllowed, "
        "NotInstalled, NotOurs or PathTooLong."
    )
    remedy: str = field("A command that resolves it. Empty if there is none.", default=UNSET)
