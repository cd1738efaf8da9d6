# SPDX-License-Identifier: Apache-2.0
"""What containers use, measured twice with a short time in between.

CPU time is that of the container's control group, traffic that of its network. Both are sums
since its start, so two measurements give the average of the time between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rdd.vm.idle.settings import IdleSettings


@dataclass(frozen=True, slots=True)
class ContainerLoad:
    """The sums of one container since its start."""

    cpu_s: float = 0.0
    network_bytes: int = 0


Loads = Mapping[str, ContainerLoad]
"""By the id of the container."""


def busy_containers(
    before: Loads, after: Loads, *, elapsed_s: float, settings: IdleSettings
) -> list[str]:
    """Return the containers above a threshold, each with its use; a new one counts, too."""
    found = []
    for name, now in sorted(after.items()):
        then = before.get(name)
        if then is None:
            found.append(f"container {name[:12]} has started")
            continue
        percent = (now.cpu_s - then.cpu_s) / elapsed_s * 100
        rate = (now.network_bytes - then.network_bytes) / elapsed_s
        if percent > settings.cpu_percent:
            found.append(f"container {name[:12]} uses {percent:.0f} % of a CPU")
        elif rate > settings.network_bytes_per_s:
            found.append(f"container {name[:12]} transfers {rate:.0f} bytes/s")
    return found
