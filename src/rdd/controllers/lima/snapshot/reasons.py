# SPDX-License-Identifier: Apache-2.0
"""The reasons of the conditions of a Snapshot; docs/snapshots.md lists them."""

from typing import Final

from rdd.runtime.conditions import FORWARDED, Reason, ReasonTable

READY: Final = "Ready"
RESTORED: Final = "Restored"

REASONS: Final = ReasonTable(
    Reason(READY, "True", "Complete", "The content is complete", "it can be restored"),
    Reason(READY, "False", "Creating", "The content is being saved",
           "`status.progress` has the details"),
    Reason(READY, "False", "Failed", FORWARDED,
           "nothing was saved; delete the Snapshot and create another one"),
    Reason(READY, "False", "NameInUse", FORWARDED,
           "there is other content of this name on disk, which is kept"),
    Reason(READY, "False", "ContentMissing", FORWARDED,
           "the content was complete and is not on disk any more, or cannot be read"),
    Reason(READY, "False", "RemovalPending", FORWARDED,
           "it is inside of the disk of a machine that runs, and is removed when that stops"),
    Reason(RESTORED, "True", "Restored", "The snapshot has been restored", "it is in effect"),
    Reason(RESTORED, "False", "Restoring", "The snapshot is being restored",
           "`status.progress` has the details"),
    Reason(RESTORED, "False", "RestoreFailed", FORWARDED, "everything is as it was before"),
)  # fmt: skip
