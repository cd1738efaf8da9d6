# SPDX-License-Identifier: Apache-2.0
"""Snapshot: a saved state of the App, of a machine, of a namespace or of the whole instance."""

from collections.abc import Sequence
from typing import Literal

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition, condition_path
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field


class SnapshotScope(Struct):
    """What a snapshot saves."""

    kind: Literal["App", "LimaVM", "Namespace", "Instance"] = field(
        "App: its settings and its machine with containers, images and volumes. LimaVM: one "
        "machine. Namespace: the objects of a namespace. Instance: the database with all objects, "
        "and all machines."
    )
    name: str = field("Name of the LimaVM or the namespace.", default=UNSET)
    namespace: str = field("Namespace of the LimaVM; found by its name without one.", default=UNSET)


class SnapshotSpec(Struct):
    """The snapshot to make."""

    scope: SnapshotScope = field(
        "What it saves. It cannot change.",
        schema=constraints.rules(
            ("self == oldSelf", "the scope of a snapshot cannot change; create another one"),
            (
                "(self.kind in ['LimaVM', 'Namespace']) == (has(self.name) && self.name != '')",
                "a name is required for LimaVM and Namespace, and for nothing else",
            ),
            (
                "self.kind == 'LimaVM' || !has(self.__namespace__)",
                "only a LimaVM has a namespace",
            ),
        ),
    )
    description: str = field("What it is for, for people.", default=UNSET)


class SnapshotStatus(Struct):
    """The content and what is being done with it."""

    conditions: Sequence[Condition] = field(
        "Ready: whether the content is complete. Restored: the last restore.",
        default=UNSET,
        schema=BY_TYPE,
    )
    creation_time: str = field(
        "When the saved state was.", default=UNSET, schema=constraints.DATE_TIME
    )
    size: int = field(
        "Size of the content in bytes. What shares blocks with a machine counts, too.",
        default=UNSET,
        schema=constraints.INT64,
    )
    method: str = field(
        "How machines were saved: reflink and qcow2 share blocks with them, copy does not.",
        default=UNSET,
    )
    machines: Sequence[str] = field("Names of the machines in it.", default=UNSET)
    path: str = field("Directory of the content.", default=UNSET)
    progress: str = field("What is being done, as text.", default=UNSET)
    copied_bytes: int = field("Bytes copied.", default=UNSET, schema=constraints.INT64)
    total_bytes: int = field(
        "Bytes to copy, unless blocks are shared.", default=UNSET, schema=constraints.INT64
    )
    restore_request: str = field(
        "The value of the annotation restoreRequested that Restored is about.", default=UNSET
    )


class Snapshot(
    Kind,
    group=names.RDD_GROUP,
    namespaced=False,
    columns=(
        Column("Scope", "string", ".spec.scope.kind"),
        Column("Of", "string", ".spec.scope.name"),
        Column("Ready", "string", condition_path("Ready", "status")),
        Column("Size", "integer", ".status.size", "byte"),
        Column("Created", "date", ".status.creationTime"),
        Column("Description", "string", ".spec.description", is_wide=True),
        Column("Message", "string", condition_path("Ready", "message"), is_wide=True),
    ),
    annotations={names.CONTROLLER: "snapshot"},
    schema=constraints.rule(
        "size(self.metadata.name) <= 63", "the name of a Snapshot has at most 63 characters"
    ),
):
    """A saved state. Deleting it removes the content."""

    spec: SnapshotSpec = field("The snapshot to make.")
    status: SnapshotStatus = field("The content and what is done with it.", default=UNSET)
