# SPDX-License-Identifier: Apache-2.0
"""The controller of LimaVMs: objects become virtual machines.

admission           validation; uniqueness: one virtual machine per name
reconciler          the order of the steps; reconcile_pass: one pass, and the state of a machine
creation            from a LimaVM to an instance on disk; templates: its copy of the template
power               start, stop, restarts, crashes; backoff: delays between attempts
deletion            cleanup
disks, logs         snapshots and disk usage, log files, over HTTP
operations          long work beside the reconciler
reasons, status     conditions and events
environment         the interface to rdd.vm
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from rdd.api import names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.lima.limavm import logs
from rdd.controllers.lima.limavm.admission import LimaVMAdmission
from rdd.controllers.lima.limavm.disks import ENDPOINT, DiskEndpoint
from rdd.controllers.lima.limavm.machines_interface import MakeVmEnvironment, VmEnvironment
from rdd.controllers.lima.limavm.reconciler import LimaVMReconciler
from rdd.controllers.lima.limavm.start_check import StartCheck
from rdd.controllers.lima.limavm.uniqueness import NameReservations
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
    resource_of,
    watch,
)
from rdd.runtime.passthrough import Handler
from rdd.vm.instance_dir import LimaHome

__all__ = ["controller", "limavm"]

_SUFFIX = "-template"
_WORKERS = 4  # cancelling an operation takes a moment


def limavm(env: ControllerEnvironment) -> Controller:
    """Create the controller of the virtual machines of an instance."""

    def make_machines(changed: Callable[[str], None]) -> VmEnvironment:
        from rdd.fetch.network import Network
        from rdd.host.trash import Trash
        from rdd.vm.machine_trash import MachineTrash
        from rdd.vm.machines import Machines
        from rdd.vm.snapshots.store import SnapshotStore
        from rdd.vm.template import HostFacts

        return Machines(
            LimaHome(env.instance.lima_home),
            agent_command=env.agent_command,
            changed=changed,
            environment=env.environment,
            facts=HostFacts.gather(env.home),
            version=env.version,
            trash=MachineTrash(Trash(env.instance.trash_dirs), env.instance.suffix),
            snapshots=SnapshotStore(env.instance.snapshot_dirs),
            network=lambda: Network(sources=env.sources()),
        )

    return controller(env, make_machines)


def controller(env: ControllerEnvironment, make_machines: MakeVmEnvironment) -> Controller:
    """Create the controller with another environment."""
    reservations = NameReservations()
    grace_periods: dict[str, float] = {}
    present: list[VmEnvironment] = []  # a restarted manager creates another one
    machine_logs = logs.LogEndpoint(LimaHome(env.instance.lima_home))
    keeps_logs = bool(env.environment.get("RDD_KEEP_LOGS"))

    def make_environment(changed: Callable[[str], None]) -> VmEnvironment:
        present[:] = [make_machines(changed)]
        return present[0]

    def reconciler(context: Context) -> LimaVMReconciler:
        return LimaVMReconciler(
            context,
            make_environment,
            reservations,
            grace_periods,
            log_dir=env.instance.log_dir if keeps_logs else None,
            start_check=StartCheck(context.client, env) if env.profile is not None else None,
        )

    def webhooks(context: Context) -> Sequence[Webhook]:
        admission = LimaVMAdmission(
            context,
            reservations,
            grace_periods,
            home=LimaHome(env.instance.lima_home),
            environment=env.environment,
        )
        return admission.webhooks()

    def passthroughs(context: Context) -> Mapping[str, Handler]:
        async def announce(name: str) -> None:
            change = {"metadata": {"annotations": {names.DISK_SNAPSHOTS_CHANGED: "true"}}}
            for vm in context.cache.of(LimaVM).list():
                if vm.metadata.name == name:
                    await context.client.patch(
                        resource_of(LimaVM), name, change, namespace=vm.metadata.namespace
                    )

        disks = DiskEndpoint(lambda: present[-1] if present else None, announce)
        return {ENDPOINT: disks.handle, logs.ENDPOINT: machine_logs.handle}

    return Controller(
        "limavm",
        reconciler,
        sources=(
            watch(LimaVM, any_of(generation_changed, annotations_changed, finalizers_changed)),
            maps(CONFIG_MAPS, _vm_of_copy, label_selector=f"{names.TEMPLATE_LABEL}=true"),
        ),
        definitions=crds_of("limavm"),
        webhooks=webhooks,
        passthroughs=passthroughs,
        workers=_WORKERS,
    )


def _vm_of_copy(config_map: Object) -> Iterable[ObjectKey]:
    """Return the LimaVM of a template copy, by its name; it need not exist."""
    namespace, name = ObjectKey.of(config_map)
    if name.endswith(_SUFFIX):
        yield ObjectKey(namespace, name.removesuffix(_SUFFIX))
