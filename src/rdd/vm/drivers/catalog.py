# SPDX-License-Identifier: Apache-2.0
"""The drivers by name. The package of a driver is imported on first use.

Which of them runs a machine is decided in `selection.py`. The names are also in the schema of the
App (`rdd.kinds.app`); `rdd.vm.template.rules` has the vmTypes that templates may name.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import Availability, DriverProvider

if TYPE_CHECKING:
    from rdd.vm.template.model import Template

DRIVERS = ("host", "lima", "qemu")


def provider(name: str) -> DriverProvider:
    """Return the provider of a driver. Raises HostError for an unknown name."""
    match name:
        case "host":
            from rdd.vm.drivers.host import PROVIDER as HOST

            return HOST
        case "lima":
            from rdd.vm.drivers.lima import PROVIDER as LIMA

            return LIMA
        case "qemu":
            from rdd.vm.drivers.qemu import PROVIDER as QEMU

            return QEMU
    known = ", ".join(DRIVERS)
    raise HostError(f'unknown driver "{name}"; known drivers: {known}')


def availability(
    name: str, environment: Mapping[str, str], template: "Template | None" = None
) -> Availability:
    """Return whether a driver works on this host, and with `template` if one is given."""
    return provider(name).availability(environment, template)
