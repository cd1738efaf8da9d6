# SPDX-License-Identifier: Apache-2.0
"""Driver selection: which driver runs a machine, decided once, at its creation.

The inputs, the first one that is set wins:

    driver        the creator of the machine names a driver
    vmType        the template names a kind of machine; `RDD_VM_TYPE` selects between the
                  drivers that can run this kind
    RDD_VM_TYPE   a driver or a kind of machine

Of the remaining candidates the first usable one wins, in the order of `preference`, the only
preference policy. The App's `virtualMachine.type: auto` uses the same policy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from rdd.host.errors import FailureReason, HostError
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import Availability
from rdd.vm.template import Template

_DRIVERS_OF_VM_TYPE = {"host": {"host"}, "qemu": {"lima", "qemu"}, "vz": {"lima"}}

Probe = Callable[[str, Mapping[str, str]], Availability]
"""Return whether a driver works on this host."""


class GuestImage(Enum):
    """Where the disk image of a virtual machine comes from."""

    NONE = auto()
    """There is none: no driver that boots a guest can run the machine."""
    GIVEN = auto()
    """The template names one, so it describes a guest; a virtual machine is preferred."""
    ON_DEMAND = auto()
    """The creator supplies one to drivers that need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRequest:
    """What the selection depends on, besides the environment."""

    driver: str = ""
    vm_type: str = ""
    image: GuestImage = GuestImage.ON_DEMAND


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected driver, or (with an empty name) why there is none."""

    driver: str
    refused: tuple[Availability, ...] = ()

    @property
    def remedy(self) -> str:
        """The first command that makes a refused driver work; empty if there is none."""
        return next((answer.command for answer in self.refused if answer.command), "")

    def lines(self) -> list[str]:
        """Return one line per refused driver: name, reason, fix."""
        return [_line(answer, 0, ": ") for answer in self.refused]

    def table(self) -> str:
        """Return one line per refused driver: name, reason, fix."""
        width = max((len(answer.driver) for answer in self.refused), default=0)
        return "\n".join(_line(answer, width) for answer in self.refused)


def preference(image: GuestImage) -> tuple[str, ...]:
    """Return the drivers for a machine, best first.

    Lima is preferred where it works; it refuses root. A template with an image describes a
    guest, so QEMU precedes the host. Otherwise the host precedes QEMU: it needs no download
    and no boot.
    """
    match image:
        case GuestImage.NONE:
            return ("host",)
        case GuestImage.GIVEN:
            return ("lima", "qemu", "host")
        case GuestImage.ON_DEMAND:
            return ("lima", "host", "qemu")


def candidates(request: MachineRequest, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the drivers that may run a machine, best first.

    Raises HostError for an unknown driver, and for one that cannot run this kind of machine.
    """
    if request.driver:
        return (_named(request),)
    override = environment.get("RDD_VM_TYPE", "")
    if override and override not in {*catalog.DRIVERS, *_DRIVERS_OF_VM_TYPE}:
        known = ", ".join(sorted({*catalog.DRIVERS, *_DRIVERS_OF_VM_TYPE}))
        raise HostError(f'RDD_VM_TYPE="{override}" is not a driver; known drivers: {known}')
    if request.vm_type:
        able = _DRIVERS_OF_VM_TYPE.get(request.vm_type, set())
        return (override,) if override in able else _ordered(able)
    if override in catalog.DRIVERS:
        return (override,)
    if override:
        return _ordered(_DRIVERS_OF_VM_TYPE[override])
    return preference(request.image)


def select(
    request: MachineRequest,
    environment: Mapping[str, str],
    *,
    probe: Probe = catalog.availability,
) -> Selection:
    """Return the first candidate that works on this host. Raises HostError."""
    refused: list[Availability] = []
    for name in candidates(request, environment):
        answer = probe(name, environment)
        if answer.usable:
            return Selection(name, tuple(refused))
        refused.append(answer)
    return Selection("", tuple(refused))


def driver_for(template: Template, environment: Mapping[str, str], *, driver: str = "") -> str:
    """Return the driver of a new machine, `driver` if one is given.

    Raises HostError with each driver's reason and fix.
    """

    def probe(name: str, environment: Mapping[str, str]) -> Availability:
        return catalog.availability(name, environment, template)

    selection = select(request_of(template, environment, driver=driver), environment, probe=probe)
    if selection.driver:
        return selection.driver
    refusals = "; ".join(map(_refusal, selection.refused))
    raise HostError(
        f"no driver can run this machine: {refusals}",
        reason=FailureReason.NO_DRIVER,
        remedy=selection.remedy,
    )


def request_of(
    template: Template, environment: Mapping[str, str], *, driver: str = ""
) -> MachineRequest:
    """Return what the selection needs of a template."""
    has_image = bool(template.images) or has_own_image(environment)
    image = GuestImage.GIVEN if has_image else GuestImage.NONE
    return MachineRequest(driver=driver, vm_type=template.vm_type, image=image)


def has_own_image(environment: Mapping[str, str]) -> bool:
    """Return whether the user sets an image that replaces those of templates."""
    return bool(environment.get("RDD_GUEST_IMAGE"))


def _named(request: MachineRequest) -> str:
    catalog.provider(request.driver)
    if request.vm_type and request.driver not in _DRIVERS_OF_VM_TYPE.get(request.vm_type, ()):
        raise HostError(
            f"the driver {request.driver} cannot run machines of vmType {request.vm_type}"
        )
    return request.driver


def _ordered(able: set[str]) -> tuple[str, ...]:
    order = preference(GuestImage.GIVEN)
    return tuple(name for name in order if name in able)


def _line(answer: Availability, width: int, gap: str = "  ") -> str:
    line = f"{answer.driver:<{width}}{gap}{answer.reason or 'does not work here'}"
    return f"{line}; to change that: {answer.fix}" if answer.fix else line


def _refusal(answer: Availability) -> str:
    remedy = f" ({answer.fix})" if answer.fix else ""
    return f"{answer.driver}: {answer.reason or 'not usable'}{remedy}"
