# SPDX-License-Identifier: Apache-2.0
"""Diagnostic: the result of one periodic check."""

from collections.abc import Sequence

from rdd.api import names
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field


class DiagnosticStatus(Struct):
    """The result of the check."""

    conditions: Sequence[Condition] = field(
        "The result as the condition Healthy, with reason and message.",
        default=UNSET,
        schema=BY_TYPE,
    )
    evidence: Sequence[str] = field("The evidence of the result, line by line.", default=UNSET)
    next_step: str = field("The suggested fix. Empty if there is nothing to do.", default=UNSET)


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

    status: DiagnosticStatus = field("The result of the check.", default=UNSET)
