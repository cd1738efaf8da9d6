# SPDX-License-Identifier: Apache-2.0
"""Diagnostic: one thing that is checked all the time, and what was found."""

from collections.abc import Sequence

from rdd.api import names
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field


class DiagnosticStatus(Struct):
    """What was found."""

    conditions: Sequence[Condition] = field(
        "Healthy: whether all is well, with reason and message.", default=UNSET, schema=BY_TYPE
    )
    evidence: Sequence[str] = field("What the finding rests on, line by line.", default=UNSET)
    next_step: str = field("What to do about it. Empty if there is nothing to do.", default=UNSET)


class Diagnostic(
    Kind,
    group=names.APP_GROUP,
    namespaced=False,
    categories=("all",),
    columns=(
        Column("Healthy", "string", '.status.conditions[?(@.type=="Healthy")].status'),
        Column("Reason", "string", '.status.conditions[?(@.type=="Healthy")].reason'),
        Column("Next step", "string", ".status.nextStep"),
    ),
):
    """The result of one check: the docker context, the disk, the engine and so on."""

    status: DiagnosticStatus = field("What was found.", default=UNSET)
