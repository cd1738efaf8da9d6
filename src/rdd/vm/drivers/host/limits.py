# SPDX-License-Identifier: Apache-2.0
"""The control group of a machine: `cpus` and `memory` of a template as limits.

Every machine that root runs is in a group of its own, also without limits: the traces of dead
containers are then in one place. The limits are those of the template; a resolved template of
this driver has no defaults for them.
"""

from typing import Any

from rdd.host.cgroups import Group, Layout, Limits, scope_command
from rdd.host.errors import HostError
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.resource_limits import ResourceLimits
from rdd.vm.template.model import Template

MIN_MEMORY_BYTES = 64 << 20
"""Below it dockerd is killed while it starts."""


def wanted_limits(template: Template) -> Limits:
    """Return the limits in a resolved template."""
    return Limits(template.cpus, int(template.memory))


def missing_limits(template: Template, layout: Layout) -> str:
    """Return why the limits of a template cannot be enforced; empty if they can."""
    memory = wanted_limits(template).memory_bytes
    if 0 < memory < MIN_MEMORY_BYTES:
        return f"a memory of {memory} bytes is too small for an engine, at least 64 MiB are needed"
    return layout.reason


def enforced(limits: Limits, layout: Layout) -> ResourceLimits:
    """Return the report about limits that are in force."""
    return ResourceLimits(mode=layout.mode, cpus=limits.cpus, memory_bytes=limits.memory_bytes)


def enter_group(context: DriverContext, paths: MachinePaths, pid: int) -> "MachineGroup":
    """Move the first process of a machine into its control group.

    A host without control groups runs the machine, too; limits are then reported as missing.
    """
    limits, layout = wanted_limits(context.template), Layout.read(context.environment)
    reason = missing_limits(context.template, layout)
    if not reason:
        group = Group(layout, paths.cgroup)
        try:
            group.create(limits)
            group.add(pid)
            return MachineGroup(enforced(limits, layout), group)
        except HostError as error:
            reason = str(error)
    return MachineGroup(ResourceLimits(message=reason))


def scope(context: DriverContext, paths: MachinePaths) -> tuple[list[str], ResourceLimits]:
    """Return the words before a rootless engine's command that limit it, and the report.

    Without limits there are none: a machine then needs no systemd.
    """
    wanted, layout = wanted_limits(context.template), Layout.read(context.environment)
    reason = missing_limits(context.template, layout)
    if not wanted or reason:
        return [], ResourceLimits(message=reason) if reason else enforced(Limits(), layout)
    words = scope_command(f"rdd-{paths.tag}", wanted, context.environment)
    return words, enforced(wanted, layout)


def report(context: DriverContext, found: ResourceLimits) -> None:
    """Report limits to the daemon, and those that should exist and do not as a problem."""
    context.limited(found)
    if wanted_limits(context.template) and not found.mode:
        reason = found.message or "the machine was started by an older version of rdd"
        context.degrade(f"cpus and memory are not limited: {reason}")


class MachineGroup:
    """The group that a machine has entered, or none."""

    def __init__(self, limits: ResourceLimits, group: Group | None = None) -> None:
        self.limits = limits
        self._group = group

    def plan(self) -> list[Any]:
        """Return the mounts of the cgroup namespace; none without a group."""
        return list(self._group.namespace_mounts()) if self._group is not None else []

    @property
    def exists(self) -> bool:
        return self._group is not None
