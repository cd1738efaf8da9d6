# SPDX-License-Identifier: Apache-2.0
"""Which driver runs a machine.

The template's `vmType` names the kind of machine; between the drivers that can do it whoever
creates the machine decides, then `RDD_VM_TYPE`, which also decides where the template is silent.
Without any, the first driver in the order of preference that works here is taken; one that needs
an image is passed over when there is none. The choice is made once, at creation.
"""

from collections.abc import Mapping

from rdd.host.errors import HostError
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import Availability
from rdd.vm.template import Template

_BY_VM_TYPE = {"host": ("host",), "qemu": ("lima", "qemu"), "vz": ("lima",)}


def candidates(
    template: Template, environment: Mapping[str, str], *, driver: str = ""
) -> tuple[str, ...]:
    """The drivers that may run a machine, best first; only `driver` if one is given.

    Raises HostError for a driver that does not exist, or not for such machines.
    """
    if driver:
        catalog.package(driver)
        possible = _BY_VM_TYPE.get(template.vm_type, ()) if template.vm_type else catalog.ORDER
        if driver not in possible:
            raise HostError(f"the driver {driver} cannot run machines of vmType {template.vm_type}")
        return (driver,)
    wanted = environment.get("RDD_VM_TYPE", "")
    if wanted and wanted not in catalog.ORDER and wanted not in _BY_VM_TYPE:
        known = ", ".join(sorted({*catalog.ORDER, *_BY_VM_TYPE}))
        raise HostError(f'RDD_VM_TYPE="{wanted}" is not a driver; known are {known}')
    if template.vm_type:
        possible = _BY_VM_TYPE.get(template.vm_type, ())
        return (wanted,) if wanted in possible else possible
    if wanted:
        return (wanted,) if wanted in catalog.ORDER else _BY_VM_TYPE[wanted]
    if not template.images and not has_own_image(environment):
        return ("host",)
    return tuple(catalog.ORDER)


def has_own_image(environment: Mapping[str, str]) -> bool:
    """Whether the user names an image that replaces those of templates."""
    return bool(environment.get("RDD_GUEST_IMAGE"))


def choose(template: Template, environment: Mapping[str, str], *, driver: str = "") -> str:
    """The driver for a new machine, `driver` if one is given.

    Raises HostError with each driver's reason and remedy.
    """
    refused = []
    for name in candidates(template, environment, driver=driver):
        answer = catalog.availability(name, environment, template)
        if answer.usable:
            return name
        refused.append(_refusal(answer))
    raise HostError("no driver can run this machine: " + "; ".join(refused))


def _refusal(answer: Availability) -> str:
    remedy = f" ({answer.fix})" if answer.fix else ""
    return f"{answer.driver}: {answer.reason or 'not usable'}{remedy}"
