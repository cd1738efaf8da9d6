# SPDX-License-Identifier: Apache-2.0
"""What runs the containers of this user: the choice behind `virtualMachine.type: auto`.

    as an ordinary user    Lima if it is installed, else the host itself (rootless, when it
                           has everything that takes), else QEMU
    as root                the host itself, else QEMU; Lima refuses root

It is made once, before the virtual machine is made, and recorded in the status. If
nothing works, the message is a table of what was tried, why it does not work, and the
command that changes that.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import Availability

AUTO = "auto"
_AS_USER = ("lima", "host", "qemu")
_AS_ROOT = ("host", "qemu", "lima")

Asked = Callable[[str, Mapping[str, str]], Availability]
"""Asks a driver by name whether it works here."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The driver that was found, or (with an empty name) why there is none."""

    driver: str
    refused: tuple[Availability, ...] = ()

    def table(self) -> str:
        """What was tried, one driver a line: name, reason, remedy."""
        width = max((len(answer.driver) for answer in self.refused), default=0)
        return "\n".join(_line(answer, width) for answer in self.refused)


def availability(driver: str, environment: Mapping[str, str]) -> Availability:
    """What a driver says about this machine."""
    return catalog.package(driver).availability(environment)


def preferred(wanted: str, environment: Mapping[str, str], *, is_root: bool) -> Sequence[str]:
    """The drivers to try for a `virtualMachine.type`, best first."""
    if wanted not in ("", AUTO):
        return (wanted,)
    override = environment.get("RDD_VM_TYPE", "")
    if override in catalog.ORDER:
        return (override,)
    return _AS_ROOT if is_root else _AS_USER


def choose(
    wanted: str,
    environment: Mapping[str, str],
    *,
    is_root: bool | None = None,
    asked: Asked = availability,
) -> Choice:
    """The first driver that works here."""
    if is_root is None:
        is_root = os.geteuid() == 0
    refused: list[Availability] = []
    for driver in preferred(wanted, environment, is_root=is_root):
        answer = asked(driver, environment)
        if answer.usable:
            return Choice(driver, tuple(refused))
        refused.append(answer)
    return Choice("", tuple(refused))


def _line(answer: Availability, width: int) -> str:
    line = f"{answer.driver:<{width}}  {answer.reason or 'does not work here'}"
    return f"{line}; to change that: {answer.fix}" if answer.fix else line
