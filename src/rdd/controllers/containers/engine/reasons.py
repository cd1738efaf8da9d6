# SPDX-License-Identifier: Apache-2.0
"""The reasons of the condition ContainerEngineReady; docs/engine.md lists them."""

from typing import Final

from rdd.runtime.conditions import FORWARDED, Reason, ReasonTable

READY: Final = "ContainerEngineReady"

REASONS: Final = ReasonTable(
    Reason(READY, "True", "Connected", "Container engine synced",
           "all items are mirrored; the message names those that could not be"),
    Reason(READY, "True", "Paused", FORWARDED,
           "the machine is paused; the mirrors are those of the moment of the pause"),
    Reason(READY, "Unknown", "Reconciling",
           "Verifying the container engine after controller restart",
           "the control plane has been restarted"),
    Reason(READY, "False", "ConnectFailed", FORWARDED,
           "the engine does not respond; the mirrors stay, and the controller retries"),
    Reason(READY, "False", "NotResponding", FORWARDED,
           "the engine, or the guest around it, runs and hangs; the mirrors stay"),
    Reason(READY, "False", "Stopped", "Container engine stopped",
           "the machine is not running; the mirrors are deleted"),
)  # fmt: skip
