# SPDX-License-Identifier: Apache-2.0
"""The drivers, by name; each package is imported when it is asked for.

`ORDER` is that in which a machine without a `vmType` chooses: the first one that works.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import Availability, DriverPackage

if TYPE_CHECKING:
    from rdd.vm.template.model import Template

ORDER = ("lima", "qemu", "host")


def package(name: str) -> DriverPackage:
    """The driver called `name`. Raises HostError when there is none."""
    if name not in ORDER:
        known = ", ".join(sorted(ORDER))
        raise HostError(f'there is no driver "{name}"; known drivers: {known}')
    return cast(DriverPackage, importlib.import_module(f"rdd.vm.drivers.{name}"))


def ability(name: str, function: str) -> Any:
    """An optional function of a driver, such as `suspend`; None when it has none."""
    return getattr(package(name), function, None)


def availability(
    name: str, environment: Mapping[str, str], template: "Template | None" = None
) -> Availability:
    """What a driver says about this machine, and about a template if one is given."""
    asked = ability(name, "availability_for") if template is not None else None
    if asked is not None:
        return cast(Availability, asked(environment, template))
    return package(name).availability(environment)


def availabilities(environment: Mapping[str, str]) -> list[Availability]:
    """What each driver says about this machine, in the order of preference."""
    return [package(name).availability(environment) for name in ORDER]
