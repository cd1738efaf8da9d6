# SPDX-License-Identifier: Apache-2.0
"""LimaVM: a virtual machine created from a Lima template."""

from collections.abc import Mapping, Sequence
from typing import Final

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition, condition_path
from rdd.kinds.kind import Column, Kind
from rdd.kinds.parts.failure import Failure
from rdd.kinds.parts.guest_memory import GuestMemory
from rdd.kinds.parts.idle import Idle
from rdd.kinds.parts.resource_limits import ResourceLimits
from rdd.kinds.struct import UNSET, Struct, field

TEMPLATE_KEY: Final = "template"
"""The key of a template in a ConfigMap."""


class TemplateReference(Struct):
    """A ConfigMap with a template."""

    name: str = field("Name of the ConfigMap; the template is at its key template.")
    namespace: str = field(
        "Namespace of the ConfigMap. Defaults to the namespace of the LimaVM.", default=UNSET
    )


class LimaVMSpec(Struct):
    """The desired virtual machine."""

    running: bool = field("Whether the virtual machine should run.", default=False, required=True)
    template_ref: TemplateReference = field(
        "The template. It is read once, at creation, and cannot be changed.",
        schema=constraints.immutable("templateRef is immutable"),
    )
    params: Mapping[str, str] = field(
        "Values that override the params of the template. A change restarts the virtual machine.",
        default=UNSET,
    )
    idle: Idle = field(
        "When the virtual machine counts as idle, and what happens then. "
        "A change takes effect without a restart.",
        default=UNSET,
    )


class LimaVMStatus(Struct):
    """The observed virtual machine."""

    conditions: Sequence[Condition] = field(
        "The state of the virtual machine: Created, Running, "
        "and Degraded while a part of it does not work. "
        "Paused exists while spec.idle has an action, "
        "ClockSynchronized while a guest runs whose clock is compared, "
        "MemoryReclaimed while a guest runs whose memory is measured.",
        default=UNSET,
        schema=BY_TYPE,
    )
    observed_generation: int = field(
        "The generation of the spec that the condition Running refers to.",
        default=UNSET,
        schema=constraints.INT64,
    )
    template_config_map: str = field(
        "Name of the ConfigMap with its own copy of the template. "
        "Set once that ConfigMap is owned by the LimaVM.",
        default=UNSET,
    )
    observed_template_resource_version: str = field(
        "The resourceVersion of the template that is in effect. "
        "While the virtual machine runs it changes only with a restart.",
        default=UNSET,
    )
    restart_needed: bool = field("Whether a requested restart is pending.", default=UNSET)
    unavailable_ports: Sequence[int] = field(
        "Host ports that the virtual machine should forward and that another program uses.",
        default=UNSET,
    )
    resource_limits: ResourceLimits | None = field(
        "The limits of everything that a machine of the type host runs, while it runs.",
        default=None,
    )
    guest_memory: GuestMemory | None = field(
        "What a guest uses and what it costs, when it was last different by more than a tenth.",
        default=None,
    )
    failure: Failure | None = field(
        "Why the creation or the start failed, if only the user can help.", default=None
    )
    held_by: str = field(
        "Who keeps the virtual machine stopped, such as a Snapshot that is being made.",
        default=UNSET,
    )
    restart_count: int = field(
        "Number of starts of the virtual machine.", default=UNSET, schema=constraints.INT32
    )


class LimaVM(
    Kind,
    group=names.LIMA_GROUP,
    categories=("all",),
    columns=(
        Column("Running", "boolean", ".spec.running"),
        Column("State", "string", condition_path("Running", "reason")),
        Column("Starts", "integer", ".status.restartCount"),
        Column("Age", "date", ".metadata.creationTimestamp"),
        Column("Message", "string", condition_path("Running", "message"), is_wide=True),
        Column("Paused", "string", condition_path("Paused", "status"), is_wide=True),
    ),
):
    """A virtual machine created from a Lima template."""

    spec: LimaVMSpec = field("The desired virtual machine.")
    status: LimaVMStatus = field("The observed virtual machine.", default=UNSET)
