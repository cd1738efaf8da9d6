# SPDX-License-Identifier: Apache-2.0
"""Idle detection of the App's machine: its settings go to the LimaVM, a stop comes back.

The LimaVM reports that an idle machine shall stop, because the machine belongs to the App: only
`spec.running` of the App keeps it stopped.
"""

from rdd.api import names
from rdd.client import Client
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import conditions_of, find_condition, resource_of


async def apply_idle(client: Client, app: App, vm: LimaVM) -> bool:
    """Make the next change; return whether one was needed."""
    wanted = app.spec.raw.get("idle")
    if wanted != vm.spec.raw.get("idle"):
        patch = {"spec": {"idle": wanted}}
        namespace = app.spec.namespace
        await client.patch(resource_of(LimaVM), names.APP_VM_NAME, patch, namespace=namespace)
        return True
    paused = find_condition(conditions_of(vm.raw), names.PAUSED) or {}
    if app.spec.running and paused.get("reason") == "StopRequested":
        change = {"spec": {"running": False}}
        await client.patch(resource_of(App), app.metadata.name, change)
        return True
    return False
