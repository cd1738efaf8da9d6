# SPDX-License-Identifier: Apache-2.0
"""The driver of an App: maps `virtualMachine.type` to the driver selection.

`auto` leaves the decision to `rdd.vm.drivers.selection`; the App supplies an image to drivers
that need one. The choice is made once, before the virtual machine is created, and recorded in
the status. If no driver works, `Selection.table` lists the reason and the fix of each.
"""

from collections.abc import Mapping

from rdd.host.errors import HostError
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import Availability
from rdd.vm.drivers.selection import GuestImage, MachineRequest, Probe, Selection, select

AUTO = "auto"


def choose(
    wanted: str,
    environment: Mapping[str, str],
    *,
    probe: Probe = catalog.availability,
) -> Selection:
    """Return the driver for a `virtualMachine.type`."""
    driver = "" if wanted == AUTO else wanted
    request = MachineRequest(driver=driver, image=GuestImage.ON_DEMAND)
    try:
        return select(request, environment, probe=probe)
    except HostError as error:  # RDD_VM_TYPE names no driver
        return Selection("", (Availability(wanted, usable=False, reason=str(error)),))


def no_driver_message(wanted: str, choice: Selection) -> str:
    """Return why no driver works, with the reason and the fix of each."""
    headline = (
        "Nothing can run containers here"
        if wanted == AUTO
        else f'The type "{wanted}" does not work here'
    )
    return f"{headline}:\n{choice.table()}"
