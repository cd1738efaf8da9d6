# SPDX-License-Identifier: Apache-2.0
"""LimaVM: a virtual machine made from a Lima template."""

from collections.abc import Mapping, Sequence
from typing import Final

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field

TEMPLATE_KEY: Final = "template"
"""The key of a template in a ConfigMap."""


class TemplateReference(Struct):
    """A ConfigMap with a template."""

    name: str = field("Name of the ConfigMap; the template is at its key template.")
    namespace: str = field(
        "Namespace of the ConfigMap. Without it, the namespace of the LimaVM.", default=UNSET
    )


class LimaVMSpec(Struct):
    """The virtual machine that is wanted."""

    running: bool = field("Whether it should run.", default=False, required=True)
    template_ref: TemplateReference = field(
        "The template it is made from. It is read once, at creation, and cannot be changed.",
        schema=constraints.immutable("templateRef is immutable"),
    )
    params: Mapping[str, str] = field(
        "Values for params of the template, instead of those it has itself. "
        "A change restarts the virtual machine.",
        default=UNSET,
    )


class LimaVMStatus(Struct):
    """The virtual machine there is."""

    conditions: Sequence[Condition] = field(
        "The state of the virtual machine: Created, Running, "
        "and Degraded while it runs without something it should have.",
        default=UNSET,
        schema=BY_TYPE,
    )
    observed_generation: int = field(
        "The generation of the spec that Running speaks of.",
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
    restart_needed: bool = field(
        "Whether a restart was asked for and has not happened yet.", default=UNSET
    )
    unavailable_ports: Sequence[int] = field(
        "Ports of this machine that the virtual machine should forward "
        "and that another program uses.",
        default=UNSET,
    )
    restart_count: int = field(
        "How often the virtual machine has come up.", default=UNSET, schema=constraints.INT32
    )


class LimaVM(
    Kind,
    group=names.LIMA_GROUP,
    categories=("all",),
    columns=(Column("Running", "boolean", ".spec.running"),),
):
    """A virtual machine made from a Lima template."""

    spec: LimaVMSpec = field("The virtual machine that is wanted.")
    status: LimaVMStatus = field("The virtual machine there is.", default=UNSET)
