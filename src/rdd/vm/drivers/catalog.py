# SPDX-License-Identifier: Apache-2.0
"""The drivers, by name; each package is imported when it is asked for.

`ORDER` is that in which a machine without a `vmType` chooses: the first one that works.
"""

import importlib
from collections.abc import Mapping
from typing import Any, cast

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import Availability, DriverPackage

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


def availabilities(environment: Mapping[str, str]) -> list[Availability]:
    """What each driver says about this machine, in the order of preference."""
    return [package(name).availability(environment) for name in ORDER]
