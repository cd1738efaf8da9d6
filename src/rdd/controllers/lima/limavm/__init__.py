# SPDX-License-Identifier: Apache-2.0
"""The controller of LimaVMs: objects become virtual machines.

admission     what may be written; uniqueness: one virtual machine per name
reconciler    the order of a look
creation      from a LimaVM to an instance on disk; templates: its copy of the template
power         running or not, restarts, crashes; backoff: when to try again
deletion      the end
disks         snapshots and what a disk takes, asked for over HTTP
activities    what takes longer than a look
report        conditions and events
machinery     what is used of rdd.vm
"""

from collections.abc import Callable, Iterable, Sequence

from rdd.api import names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.lima.limavm.admission import Admission
from rdd.controllers.lima.limavm.disks import ENDPOINT, Disks
from rdd.controllers.lima.limavm.environment import MachineRoom, MakeMachines
from rdd.controllers.lima.limavm.reconciler import LimaVMReconciler
from rdd.controllers.lima.limavm.uniqueness import NameHolds
from rdd.kinds.catalog import crds_of
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    Context,
    Controller,
    ObjectKey,
    Webhook,
    annotations_changed,
    any_of,
    finalizers_changed,
    generation_changed,
    maps,
    watch,
)
from rdd.vm.instance_dir import LimaHome

__all__ = ["controller", "limavm"]

_SUFFIX = "-template"
_WORKERS = 4  # to cancel an activity takes a moment


def limavm(env: ControllerEnvironment) -> Controller:
    """The controller of the virtual machines of an instance."""

    def make_machines(changed: Callable[[str], None]) -> MachineRoom:
        from rdd.vm.machines import Machines
        from rdd.vm.template import HostFacts

        return Machines(
            LimaHome(env.instance.lima_home),
            agent_command=env.agent_command,
            changed=changed,
            environment=env.environment,
            facts=HostFacts.gather(env.home),
            version=env.version,
        )

    return controller(env, make_machines)


def controller(env: ControllerEnvironment, make_machines: MakeMachines) -> Controller:
    """The same with a machine room of one's own."""
    holds = NameHolds()
    graces: dict[str, float] = {}
    rooms: list[MachineRoom] = []  # the present one: a manager that starts over makes another
    disks = Disks(lambda: rooms[-1] if rooms else None)
    keeps_logs = bool(env.environment.get("RDD_KEEP_LOGS"))

    def make_room(changed: Callable[[str], None]) -> MachineRoom:
        rooms[:] = [make_machines(changed)]
        return rooms[0]

    def reconciler(context: Context) -> LimaVMReconciler:
        return LimaVMReconciler(
            context,
            make_room,
            holds,
            graces,
            log_dir=env.instance.log_dir if keeps_logs else None,
        )

    def webhooks(context: Context) -> Sequence[Webhook]:
        admission = Admission(
            context,
            holds,
            graces,
            home=LimaHome(env.instance.lima_home),
            environment=env.environment,
        )
        return admission.webhooks()

    return Controller(
        "limavm",
        reconciler,
        sources=(
            watch(LimaVM, any_of(generation_changed, annotations_changed, finalizers_changed)),
            maps(CONFIG_MAPS, _vm_of_copy, label_selector=f"{names.TEMPLATE_LABEL}=true"),
        ),
        definitions=crds_of("limavm"),
        webhooks=webhooks,
        passthroughs={ENDPOINT: disks.handle},
        workers=_WORKERS,
    )


def _vm_of_copy(config_map: Object) -> Iterable[ObjectKey]:
    """The LimaVM whose template a ConfigMap is, by its name; it need not exist (any more)."""
    namespace, name = ObjectKey.of(config_map)
    if name.endswith(_SUFFIX):
        yield ObjectKey(namespace, name.removesuffix(_SUFFIX))
