# SPDX-License-Identifier: Apache-2.0
"""One look at the App: at most one change, then the status.

The steps stand in the order in which they depend on each other; each either has nothing to
do or makes one change and ends the look, so that a crash between any two of them is like
a pause. Everything is read from the server, not from a cache: there is one App, and what
was just written must be seen.
"""

import asyncio
import logging
from dataclasses import dataclass

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app import discovery, status, template
from rdd.controllers.app.app.deletion import Deletion
from rdd.controllers.app.app.driver_choice import AUTO, choose
from rdd.controllers.app.app.ports import HeldPort
from rdd.controllers.app.app.reasons import RESTART_PENDING, SETTLED, Said, said
from rdd.controllers.app.app.settled import Situation, decide
from rdd.controllers.app.app.status import Report, Reporter
from rdd.controllers.environment import ControllerEnvironment
from rdd.host.directories import make_private_dir
from rdd.kinds.app import App
from rdd.kinds.limavm import TEMPLATE_KEY, LimaVM
from rdd.runtime import (
    CLEANUP,
    Change,
    Context,
    ObjectKey,
    Result,
    add_finalizer,
    find_condition,
    is_controlled_by,
    is_deleting,
    is_true,
    owned_by,
    owner_reference,
    remove_finalizer,
    resource_of,
    with_controller,
)
from rdd.runtime.types import AnyResource
from rdd.vm.drivers import catalog
from rdd.vm.drivers.selection import Probe, Selection

log = logging.getLogger("rdd.controllers.app")

KEEP_LOGS = "RDD_KEEP_LOGS"

APP = ObjectKey("", names.APP_NAME)
OWNED = owned_by(App.kind)

_AGAIN = Result.requeue(0)
_NAMESPACE_RETRY_S = 5.0
_DRIVER_RETRY_S = 15.0
_REFUSED_RETRY_S = 30.0


@dataclass(slots=True)
class Look:
    """What one look has found so far."""

    app: App
    driver: str = ""
    vm: LimaVM | None = None
    is_template_applied: bool = True
    is_restart_pending: bool = False


class AppReconciler:
    """Brings the virtual machine and the status of the App to what the spec asks for."""

    def __init__(
        self, context: Context, env: ControllerEnvironment, *, probe: Probe = catalog.availability
    ) -> None:
        self._context = context
        self._probe = probe
        self._client = context.client
        self._env = env
        self._reporter = Reporter(context)
        self._deletion = Deletion(context, self._reporter, vm=names.APP_VM_NAME)
        self._port = HeldPort()

    async def run(self) -> None:
        """Follow the LimaVMs; not a source, as there are none while nobody serves them."""

        def changed(change: Change) -> None:
            self._context.enqueue(APP)

        leave = self._context.cache.informer(LimaVM).add_handler(changed)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            leave()
            self._port.release()

    async def begin(self) -> None:
        """An App that was settled for another process has to be looked at first."""
        await self._take_back()

    async def drain(self) -> None:
        """Nobody answers for it from now on, maybe for long."""
        try:
            await self._take_back()
        except errors.ApiError as error:
            log.debug("what was said of the App stays: %s", error)

    async def _take_back(self) -> None:
        """Say that it is not known whether the machine runs, if it was said to."""
        found = await self._get(App, APP)
        if found is None or is_deleting(found):
            return
        app = App.of(found)
        conditions = status.conditions_of(app)
        if is_true(conditions, names.RUNNING):
            is_pending = find_condition(conditions, RESTART_PENDING) is not None
            await self._reporter.write(
                app,
                Report(
                    settled=said(SETTLED, "Reconciling"),
                    mirrored=status.not_known(app, now=timestamps.now_text(self._context.clock)),
                    restart_pending=_restart_pending(is_pending),
                    port=app.status.kubernetes_port,
                    driver=app.status.virtual_machine_type,
                ),
            )

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do the next step for the App."""
        found = await self._get(App, key)
        if found is None:
            self._port.release()
            return Result.done()
        app = App.of(found)
        if is_deleting(found):
            self._port.release()
            return await self._deletion.step(app)
        look = Look(app, driver=app.status.virtual_machine_type)
        for step in (
            self._finalizer,
            self._namespace,
            self._driver,
            self._machine_of_others,
            self._kubernetes_port,
            self._machine,
            self._input,
            self._stop,
            self._template,
            self._start,
        ):
            result = await step(look)
            if result is not None:
                return result
        self._let_go_of_port(look)
        await self._report(look)
        return Result.done()

    # -- steps: None, or what ends the look

    async def _finalizer(self, look: Look) -> Result | None:
        if CLEANUP in look.app.metadata.finalizers:
            return None
        await add_finalizer(self._client, App, look.app.raw, CLEANUP)
        return _AGAIN

    async def _namespace(self, look: Look) -> Result | None:
        name = look.app.spec.namespace
        found = await self._get(NAMESPACES, ObjectKey("", name))
        if found is None:
            wanted = with_controller({"metadata": {"name": name}}, look.app.raw)
            try:
                await self._client.create(NAMESPACES, wanted)
            except errors.AlreadyExists:
                pass
            return _AGAIN
        if not is_deleting(found):
            return None
        message = f'Namespace "{name}" is being deleted'
        await self._report(look, said(SETTLED, "NamespaceTerminating", message))
        return Result.requeue(_NAMESPACE_RETRY_S)

    async def _driver(self, look: Look) -> Result | None:
        if look.driver:
            return None
        wanted = look.app.spec.virtual_machine.type or AUTO
        # Drivers look at files and programs: not in the loop.
        choice = await asyncio.to_thread(choose, wanted, self._env.environment, probe=self._probe)
        if not choice.driver:
            await self._report(look, said(SETTLED, "NoDriver", _nothing_works(wanted, choice)))
            return Result.requeue(_DRIVER_RETRY_S)
        look.driver = choice.driver
        await self._report(look, said(SETTLED, "WaitingForLimaVM"))
        return _AGAIN

    async def _machine_of_others(self, look: Look) -> Result | None:
        namespace = look.app.spec.namespace
        found = await self._get(LimaVM, ObjectKey(namespace, names.APP_VM_NAME))
        if found is None:
            return None
        if not is_controlled_by(found, look.app.raw):
            message = (
                f'LimaVM "{namespace}/{names.APP_VM_NAME}" was not made by this App; '
                "delete it to go on"
            )
            await self._report(look, said(SETTLED, "NotOurs", message))
            return Result.done()
        look.vm = LimaVM.of(found)
        if is_deleting(found):
            # Somebody got around the guard: it goes, and is made again.
            await remove_finalizer(self._client, LimaVM, found, OWNED)
            await self._report(look, said(SETTLED, "WaitingForLimaVM"))
            return Result.done()
        return None

    async def _kubernetes_port(self, look: Look) -> Result | None:
        """Choose a port and keep it for the machine to be; forget it when it is not needed."""
        app, vm = look.app, look.vm
        port = app.status.kubernetes_port
        if not app.spec.kubernetes.enabled:
            self._port.release()
            return await self._set_port(look, 0) if port else None
        is_about_to_start = app.spec.running and not (vm is not None and vm.spec.running)
        is_lost = vm is not None and port in (vm.status.unavailable_ports or ())
        if port and not is_lost and (self._port.port == port or not is_about_to_start):
            return None
        if port and not is_lost and self._port.is_free(port):
            self._port.choose(port)
            return None
        self._port.release()  # a port that another program has got meanwhile, or none yet
        chosen = self._port.choose(self._env.instance.ports.kubernetes)
        return await self._set_port(look, chosen)

    def _let_go_of_port(self, look: Look) -> None:
        """Leave the port to the machine as soon as that starts with it."""
        reason = _reason(look.vm, names.RUNNING) if look.vm is not None else ""
        is_used = reason == "Starting" or (reason == "Started" and look.is_template_applied)
        if is_used or not look.app.spec.running:
            self._port.release()

    async def _set_port(self, look: Look, port: int) -> Result:
        decision = said(SETTLED, "ApplyingTemplate" if look.vm else "WaitingForLimaVM")
        await self._report(look, decision, port=port)
        return _AGAIN

    async def _machine(self, look: Look) -> Result | None:
        """Make the LimaVM, and before it the ConfigMap it is made from."""
        if look.vm is not None:
            return None
        app, namespace = look.app, look.app.spec.namespace
        text = self._text(look)
        source = await self._get(CONFIG_MAPS, ObjectKey(namespace, names.APP_VM_NAME))
        try:
            if source is None:
                wanted = {
                    "metadata": {"name": names.APP_VM_NAME, "namespace": namespace},
                    "data": {TEMPLATE_KEY: text},
                }
                await self._client.create(CONFIG_MAPS, with_controller(wanted, app.raw))
                return _AGAIN
            if not is_controlled_by(source, app.raw):
                message = f'ConfigMap "{namespace}/{names.APP_VM_NAME}" was not made by this App'
                await self._report(look, said(SETTLED, "NotOurs", f"{message}; delete it to go on"))
                return Result.requeue(_REFUSED_RETRY_S)
            if (source.get("data") or {}).get(TEMPLATE_KEY) != text:
                patch = {"data": {TEMPLATE_KEY: text}}
                await self._client.patch(CONFIG_MAPS, names.APP_VM_NAME, patch, namespace=namespace)
                return _AGAIN
            await self._client.create(resource_of(LimaVM), self._new_vm(look))
        except errors.AlreadyExists as error:
            # Of several that make the same, or of the ConfigMap that the LimaVM would make.
            if (
                source is not None
                and await self._get(LimaVM, ObjectKey(namespace, names.APP_VM_NAME)) is None
            ):
                return await self._refused(look, error)
        except (errors.Forbidden, errors.Invalid) as error:
            return await self._refused(look, error)
        return _AGAIN

    def _new_vm(self, look: Look) -> Object:
        app, namespace = look.app, look.app.spec.namespace
        return {
            "metadata": {
                "name": names.APP_VM_NAME,
                "namespace": namespace,
                "finalizers": [OWNED],
                "ownerReferences": [owner_reference(app.raw)],
                # The template says what kind of machine it is, which two drivers may be able to do.
                "annotations": {names.DRIVER: look.driver},
            },
            "spec": {
                "running": app.spec.running,
                "templateRef": {"name": names.APP_VM_NAME, "namespace": namespace},
            },
        }

    async def _input(self, look: Look) -> Result | None:
        """Remove the ConfigMap the LimaVM was made from, once that has a copy of its own."""
        if look.vm is None or not look.vm.status.template_config_map:
            return None
        namespace = look.app.spec.namespace
        source = await self._get(CONFIG_MAPS, ObjectKey(namespace, names.APP_VM_NAME))
        if source is None or not is_controlled_by(source, look.app.raw):
            return None
        try:
            await self._client.delete(CONFIG_MAPS, names.APP_VM_NAME, namespace=namespace)
        except errors.NotFound:
            pass
        return _AGAIN

    async def _stop(self, look: Look) -> Result | None:
        if look.vm is not None and look.vm.spec.running and not look.app.spec.running:
            return await self._set_running(look, False)
        return None

    async def _template(self, look: Look) -> Result | None:
        """Bring the template up to date, unless only rdd has changed and the machine runs."""
        vm = look.vm
        if vm is None or not vm.status.template_config_map:
            return None
        place = ObjectKey(look.app.spec.namespace, vm.status.template_config_map)
        copy = await self._get(CONFIG_MAPS, place)
        if copy is None:
            return None
        # Nothing observed yet: the machine is being made, and made from this.
        observed = vm.status.observed_template_resource_version
        look.is_template_applied = observed in ("", copy["metadata"]["resourceVersion"])
        present = (copy.get("data") or {}).get(TEMPLATE_KEY) or ""
        difference = template.compare(present, self._inputs(look))
        if difference == "none":
            return None
        if difference == "upgrade" and not _is_at_rest(vm):
            look.is_restart_pending = True
            return None
        patch = {"data": {TEMPLATE_KEY: self._text(look)}}
        try:
            await self._client.patch(CONFIG_MAPS, place.name, patch, namespace=place.namespace)
        except (errors.Forbidden, errors.Invalid) as error:
            return await self._refused(look, error)
        return _AGAIN

    async def _start(self, look: Look) -> Result | None:
        if look.vm is not None and not look.vm.spec.running and look.app.spec.running:
            return await self._set_running(look, True)
        return None

    async def _set_running(self, look: Look, is_running: bool) -> Result:
        namespace = look.app.spec.namespace
        patch = {"spec": {"running": is_running}}
        await self._client.patch(resource_of(LimaVM), names.APP_VM_NAME, patch, namespace=namespace)
        return _AGAIN

    async def _refused(self, look: Look, error: errors.ApiError) -> Result:
        await self._report(look, said(SETTLED, "Refused", error.message))
        return Result.requeue(_REFUSED_RETRY_S)

    # -- reporting

    async def _report(
        self, look: Look, settled: Said | None = None, *, port: int | None = None
    ) -> None:
        app = look.app
        mirrored = status.mirrored(app, look.vm)
        if settled is None:
            settled = decide(await self._situation(look, status.with_mirrored(app, mirrored)))
        await self._reporter.write(
            app,
            Report(
                settled=settled,
                mirrored=mirrored,
                restart_pending=_restart_pending(look.is_restart_pending),
                port=app.status.kubernetes_port if port is None else port,
                driver=look.driver,
            ),
        )

    async def _situation(self, look: Look, conditions: list[Object]) -> Situation:
        key = ObjectKey(names.SYSTEM_NAMESPACE, names.DISCOVERY_CONFIG_MAP)
        try:
            listed = await self._get(CONFIG_MAPS, key)
        except errors.ApiError:
            listed = None
        app = look.app
        return Situation(
            generation=app.metadata.generation,
            wants_running=app.spec.running,
            wants_kubernetes=app.spec.kubernetes.enabled,
            is_template_applied=look.is_template_applied,
            conditions=conditions,
            has_engine=discovery.is_enabled("engine", listed),
            has_kubernetes=discovery.is_enabled("kubernetes", listed),
        )

    # -- templates

    def _inputs(self, look: Look) -> template.Inputs:
        world = self._env
        keep_logs = bool(world.environment.get(KEEP_LOGS))
        if keep_logs:
            make_private_dir(world.instance.log_dir)
        return template.inputs_of(
            look.app, look.driver, world.instance, home=world.home, keep_logs=keep_logs
        )

    def _text(self, look: Look) -> str:
        return template.text_of(self._inputs(look))

    # -- reading

    async def _get(self, kind: AnyResource, key: ObjectKey) -> Object | None:
        try:
            return await self._client.get(resource_of(kind), key.name, namespace=key.namespace)
        except errors.NotFound:
            return None


def _reason(vm: LimaVM, type_: str) -> str:
    conditions = (vm.raw.get("status") or {}).get("conditions")
    return str((find_condition(conditions, type_) or {}).get("reason", ""))


def _restart_pending(is_pending: bool) -> Said | None:
    return said(RESTART_PENDING, "TemplateChanged") if is_pending else None


def _is_at_rest(vm: LimaVM) -> bool:
    """Whether a new template disturbs nobody: the machine is down, or about to restart anyway."""
    if vm.status.restart_needed or names.RESTART_REQUESTED in vm.metadata.annotations:
        return True
    return not vm.spec.running and _reason(vm, names.RUNNING) in ("Stopped", "")


def _nothing_works(wanted: str, choice: Selection) -> str:
    what = (
        "Nothing can run containers here"
        if wanted == AUTO
        else f'The type "{wanted}" does not work here'
    )
    return f"{what}:\n{choice.table()}"
