# SPDX-License-Identifier: Apache-2.0
"""Reconciles the App: each pass makes at most one change, then writes the status.

The steps are in the order of their dependencies; each is either a no-op or makes one change
and ends the pass, so a crash between two steps is harmless. Everything is read from the server
instead of a cache: there is one App, and a pass must see the writes of the one before.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app import discovery, history, status, template
from rdd.controllers.app.app.deletion import AppDeletion
from rdd.controllers.app.app.driver_choice import AUTO, choose, no_driver_message
from rdd.controllers.app.app.engine_version import EngineFetch, environment_with_engine
from rdd.controllers.app.app.failures import failure, failure_of, not_ours
from rdd.controllers.app.app.idle import apply_idle
from rdd.controllers.app.app.machine_state import (
    OWNED,
    can_replace_template,
    limits_of,
    new_machine,
    reason_of,
)
from rdd.controllers.app.app.ports import PortReservation
from rdd.controllers.app.app.profile_hold import hold_by_profile
from rdd.controllers.app.app.programs import ProgramFetch
from rdd.controllers.app.app.reasons import restart_pending, settled
from rdd.controllers.app.app.settled import Situation, decide
from rdd.controllers.app.app.status import AppReport, AppStatusWriter
from rdd.controllers.environment import ControllerEnvironment
from rdd.host.directories import make_private_dir
from rdd.kinds.app import App
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import TEMPLATE_KEY, LimaVM
from rdd.kinds.resource import Checkout
from rdd.runtime import (
    CLEANUP,
    Change,
    Condition,
    Context,
    ObjectKey,
    Result,
    add_finalizer,
    conditions_of,
    find_condition,
    is_controlled_by,
    is_deleting,
    is_true,
    remove_finalizer,
    resource_of,
    with_controller,
)
from rdd.runtime.types import AnyResource
from rdd.toolbox.catalogue import Catalogue
from rdd.vm.drivers import catalog
from rdd.vm.drivers.selection import Probe

log = logging.getLogger("rdd.controllers.app")

KEEP_LOGS = "RDD_KEEP_LOGS"

APP = ObjectKey("", names.APP_NAME)

_REQUEUE = Result.requeue(0)
_NAMESPACE_RETRY_S = 5.0
_DRIVER_RETRY_S = 15.0
_REFUSED_RETRY_S = 30.0


@dataclass(slots=True)
class AppPass:
    """The state of one pass."""

    app: App
    driver: str = ""
    passed_over: Sequence[str] = ()
    vm: LimaVM | None = None
    is_template_applied: bool = True
    is_restart_pending: bool = False


class AppReconciler:
    """Reconciles the virtual machine and the status of the App with the spec."""

    def __init__(
        self,
        context: Context,
        env: ControllerEnvironment,
        catalogue: Callable[[], Catalogue],
        *,
        probe: Probe = catalog.availability,
    ) -> None:
        self._context = context
        self._probe = probe
        self._client = context.client
        self._env = env
        self._status = AppStatusWriter(context)
        self._deletion = AppDeletion(context, self._status, env.instance, vm=names.APP_VM_NAME)
        self._port = PortReservation()
        self._programs = ProgramFetch(context, env)
        self._engine = EngineFetch(context, env, catalogue)

    async def run(self) -> None:
        """Watch LimaVMs and Checkouts; not as sources, because their kinds may not be served."""

        def changed(change: Change) -> None:
            self._context.enqueue(APP)

        kinds: tuple[type[Kind], ...] = (LimaVM, Checkout)
        ends = [self._context.cache.informer(kind).add_handler(changed) for kind in kinds]
        try:
            with self._env.watching_profile(lambda: self._context.enqueue(APP)):
                await asyncio.get_running_loop().create_future()
        finally:
            for unsubscribe in ends:
                unsubscribe()
            self._port.release()

    async def begin(self) -> None:
        """Revert the conditions of an earlier process."""
        await self._revert_conditions()

    async def drain(self) -> None:
        """Revert the conditions: no process verifies them from now on."""
        try:
            await self._revert_conditions()
        except errors.ApiError as error:
            log.debug("cannot revert the conditions of the App: %s", error)

    async def _revert_conditions(self) -> None:
        """Report the state as unknown if the machine is reported as running."""
        found = await self._get(App, APP)
        if found is None or is_deleting(found):
            return
        app = App.of(found)
        conditions = conditions_of(app.raw)
        if is_true(conditions, names.RUNNING):
            is_pending = find_condition(conditions, names.RESTART_PENDING) is not None
            await self._status.write(
                app,
                AppReport(
                    settled=settled("Reconciling"),
                    mirrored=status.mirrored_as_unknown(
                        app, now=timestamps.now_text(self._context.clock)
                    ),
                    restart_pending=restart_pending(is_pending),
                    port=app.status.kubernetes_port,
                    driver=app.status.virtual_machine_type,
                    passed_over=app.status.passed_over,
                ),
            )

    async def reconcile(self, key: ObjectKey) -> Result:
        """Execute the next step for the App."""
        found = await self._get(App, key)
        if found is None:
            self._port.release()
            return Result.done()
        app = App.of(found)
        await history.record(self._context, app)
        if is_deleting(found):
            self._port.release()
            return await self._deletion.step(app)
        app_pass = AppPass(
            app, driver=app.status.virtual_machine_type, passed_over=app.status.passed_over
        )
        for step in (
            self._finalizer,
            self._namespace,
            self._driver,
            self._foreign_machine,
            self._program,
            self._kubernetes_port,
            self._machine,
            self._input,
            self._stop,
            self._template,
            self._start,
            self._idle,
        ):
            result = await step(app_pass)
            if result is not None:
                return result
        self._release_port(app_pass)
        await self._report(app_pass)
        return Result.done()

    # -- steps: None to continue, or the result of the pass

    async def _finalizer(self, app_pass: AppPass) -> Result | None:
        if CLEANUP in app_pass.app.metadata.finalizers:
            return None
        await add_finalizer(self._client, App, app_pass.app.raw, CLEANUP)
        return _REQUEUE

    async def _namespace(self, app_pass: AppPass) -> Result | None:
        name = app_pass.app.spec.namespace
        found = await self._get(NAMESPACES, ObjectKey("", name))
        if found is None:
            wanted = with_controller({"metadata": {"name": name}}, app_pass.app.raw)
            try:
                await self._client.create(NAMESPACES, wanted)
            except errors.AlreadyExists:
                pass
            return _REQUEUE
        if not is_deleting(found):
            return None
        message = f'Namespace "{name}" is being deleted'
        await self._report(app_pass, settled("NamespaceTerminating", message))
        return Result.requeue(_NAMESPACE_RETRY_S)

    async def _driver(self, app_pass: AppPass) -> Result | None:
        if app_pass.driver:
            return None
        wanted = app_pass.app.spec.virtual_machine.type or AUTO
        # Probing drivers blocks on files and programs.
        environment = environment_with_engine(self._env, app_pass.app)
        choice = await asyncio.to_thread(choose, wanted, environment, probe=self._probe)
        if not choice.driver:
            await self._report(
                app_pass,
                settled("NoDriver", no_driver_message(wanted, choice)),
                failure=failure("NoDriver", choice.remedy),
            )
            return Result.requeue(_DRIVER_RETRY_S)
        app_pass.driver, app_pass.passed_over = choice.driver, choice.lines()
        await self._report(app_pass, settled("WaitingForLimaVM"))
        return _REQUEUE

    async def _foreign_machine(self, app_pass: AppPass) -> Result | None:
        namespace = app_pass.app.spec.namespace
        found = await self._get(LimaVM, ObjectKey(namespace, names.APP_VM_NAME))
        if found is None:
            return None
        if not is_controlled_by(found, app_pass.app.raw):
            message = (
                f'LimaVM "{namespace}/{names.APP_VM_NAME}" does not belong to this App; '
                "delete it to continue"
            )
            await self._report(
                app_pass,
                settled("NotOurs", message),
                failure=not_ours(self._env.instance, "limavm", namespace),
            )
            return Result.done()
        app_pass.vm = LimaVM.of(found)
        if is_deleting(found):
            # It was deleted by force: let it go, and recreate it.
            await remove_finalizer(self._client, LimaVM, found, OWNED)
            await self._report(app_pass, settled("WaitingForLimaVM"))
            return Result.done()
        return None

    async def _program(self, app_pass: AppPass) -> Result | None:
        """Hold a change until it is allowed, and the program that it needs is fetched."""
        app, driver = app_pass.app, app_pass.driver
        hold = (
            hold_by_profile(self._env, app)
            or await self._engine.hold(app, driver)
            or await self._programs.hold(app, driver, app_pass.vm)
        )
        if hold is None:
            return None
        await self._report(app_pass, hold.condition, failure=hold.failure)
        return Result.requeue(_DRIVER_RETRY_S)

    async def _kubernetes_port(self, app_pass: AppPass) -> Result | None:
        """Choose a port and reserve it for the machine; release it when it is not needed."""
        app, vm = app_pass.app, app_pass.vm
        port = app.status.kubernetes_port
        if not app.spec.kubernetes.enabled:
            self._port.release()
            return await self._set_port(app_pass, 0) if port else None
        is_about_to_start = app.spec.running and not (vm is not None and vm.spec.running)
        is_lost = vm is not None and port in (vm.status.unavailable_ports or ())
        if port and not is_lost and (self._port.port == port or not is_about_to_start):
            return None
        if port and not is_lost and self._port.is_free(port):
            self._port.choose(port)
            return None
        self._port.release()  # another program uses the port, or none is chosen yet
        chosen = self._port.choose(self._env.instance.ports.kubernetes)
        return await self._set_port(app_pass, chosen)

    def _release_port(self, app_pass: AppPass) -> None:
        """Release the port as soon as the machine starts with it."""
        reason = reason_of(app_pass.vm, names.RUNNING) if app_pass.vm is not None else ""
        is_used = reason == "Starting" or (reason == "Started" and app_pass.is_template_applied)
        if is_used or not app_pass.app.spec.running:
            self._port.release()

    async def _set_port(self, app_pass: AppPass, port: int) -> Result:
        decision = settled("ApplyingTemplate" if app_pass.vm else "WaitingForLimaVM")
        await self._report(app_pass, decision, port=port)
        return _REQUEUE

    async def _machine(self, app_pass: AppPass) -> Result | None:
        """Create the LimaVM, and before it the ConfigMap with its template."""
        if app_pass.vm is not None:
            if names.RESTORE_FROM in app_pass.app.metadata.annotations:  # the LimaVM has it
                change = {"metadata": {"annotations": {names.RESTORE_FROM: None}}}
                await self._client.patch(resource_of(App), app_pass.app.metadata.name, change)
            return None
        app, namespace = app_pass.app, app_pass.app.spec.namespace
        text = self._text(app_pass)
        source = await self._get(CONFIG_MAPS, ObjectKey(namespace, names.APP_VM_NAME))
        try:
            if source is None:
                wanted = {
                    "metadata": {"name": names.APP_VM_NAME, "namespace": namespace},
                    "data": {TEMPLATE_KEY: text},
                }
                await self._client.create(CONFIG_MAPS, with_controller(wanted, app.raw))
                return _REQUEUE
            if not is_controlled_by(source, app.raw):
                message = f'ConfigMap "{namespace}/{names.APP_VM_NAME}" does not belong to this App'
                await self._report(
                    app_pass,
                    settled("NotOurs", f"{message}; delete it to continue"),
                    failure=not_ours(self._env.instance, "configmap", namespace),
                )
                return Result.requeue(_REFUSED_RETRY_S)
            if (source.get("data") or {}).get(TEMPLATE_KEY) != text:
                patch = {"data": {TEMPLATE_KEY: text}}
                await self._client.patch(CONFIG_MAPS, names.APP_VM_NAME, patch, namespace=namespace)
                return _REQUEUE
            await self._client.create(
                resource_of(LimaVM), new_machine(app_pass.app, app_pass.driver)
            )
        except errors.AlreadyExists as error:
            # Either a concurrent creation, or the ConfigMap that the LimaVM would create.
            if (
                source is not None
                and await self._get(LimaVM, ObjectKey(namespace, names.APP_VM_NAME)) is None
            ):
                return await self._refused(app_pass, error)
        except (errors.Forbidden, errors.Invalid) as error:
            return await self._refused(app_pass, error)
        return _REQUEUE

    async def _input(self, app_pass: AppPass) -> Result | None:
        """Delete the source ConfigMap once the LimaVM has its own copy."""
        if app_pass.vm is None or not app_pass.vm.status.template_config_map:
            return None
        namespace = app_pass.app.spec.namespace
        source = await self._get(CONFIG_MAPS, ObjectKey(namespace, names.APP_VM_NAME))
        if source is None or not is_controlled_by(source, app_pass.app.raw):
            return None
        try:
            await self._client.delete(CONFIG_MAPS, names.APP_VM_NAME, namespace=namespace)
        except errors.NotFound:
            pass
        return _REQUEUE

    async def _stop(self, app_pass: AppPass) -> Result | None:
        if app_pass.vm is not None and app_pass.vm.spec.running and not app_pass.app.spec.running:
            return await self._set_running(app_pass, False)
        return None

    async def _template(self, app_pass: AppPass) -> Result | None:
        """Update the template, unless only rdd has changed and the machine runs."""
        vm = app_pass.vm
        if vm is None or not vm.status.template_config_map:
            return None
        place = ObjectKey(app_pass.app.spec.namespace, vm.status.template_config_map)
        copy = await self._get(CONFIG_MAPS, place)
        if copy is None:
            return None
        # Nothing observed yet: the machine is being created from this template.
        observed = vm.status.observed_template_resource_version
        app_pass.is_template_applied = observed in ("", copy["metadata"]["resourceVersion"])
        present = (copy.get("data") or {}).get(TEMPLATE_KEY) or ""
        difference = template.compare(present, self._inputs(app_pass))
        if difference == "none":
            return _REQUEUE if await self._programs.use(app_pass.app, vm) else None
        if difference == "upgrade" and not can_replace_template(
            vm, has_locks=self._env.has_locks()
        ):
            app_pass.is_restart_pending = True
            return None
        patch = {"data": {TEMPLATE_KEY: self._text(app_pass)}}
        try:
            await self._client.patch(CONFIG_MAPS, place.name, patch, namespace=place.namespace)
        except (errors.Forbidden, errors.Invalid) as error:
            return await self._refused(app_pass, error)
        return _REQUEUE

    async def _start(self, app_pass: AppPass) -> Result | None:
        if app_pass.vm is not None and not app_pass.vm.spec.running and app_pass.app.spec.running:
            return await self._set_running(app_pass, True)
        return None

    async def _idle(self, app_pass: AppPass) -> Result | None:
        if app_pass.vm is None or not await apply_idle(self._client, app_pass.app, app_pass.vm):
            return None
        return _REQUEUE

    async def _set_running(self, app_pass: AppPass, is_running: bool) -> Result:
        namespace = app_pass.app.spec.namespace
        patch = {"spec": {"running": is_running}}
        await self._client.patch(resource_of(LimaVM), names.APP_VM_NAME, patch, namespace=namespace)
        return _REQUEUE

    async def _refused(self, app_pass: AppPass, error: errors.ApiError) -> Result:
        await self._report(app_pass, settled("Refused", error.message))
        return Result.requeue(_REFUSED_RETRY_S)

    # -- reporting

    async def _report(
        self,
        app_pass: AppPass,
        condition: Condition | None = None,
        *,
        port: int | None = None,
        failure: Object | None = None,
    ) -> None:
        app = app_pass.app
        mirrored = status.mirrored(app, app_pass.vm)
        if condition is None:
            condition = decide(await self._situation(app_pass, status.with_mirrored(app, mirrored)))
        await self._status.write(
            app,
            AppReport(
                settled=condition,
                mirrored=mirrored,
                restart_pending=restart_pending(app_pass.is_restart_pending),
                port=app.status.kubernetes_port if port is None else port,
                driver=app_pass.driver,
                passed_over=app_pass.passed_over,
                limits=limits_of(app_pass.vm),
                failure=failure or failure_of(app_pass.vm, condition, self._env.instance),
            ),
        )

    async def _situation(self, app_pass: AppPass, conditions: list[Object]) -> Situation:
        key = ObjectKey(names.SYSTEM_NAMESPACE, names.DISCOVERY_CONFIG_MAP)
        try:
            listed = await self._get(CONFIG_MAPS, key)
        except errors.ApiError:
            listed = None
        app = app_pass.app
        return Situation(
            generation=app.metadata.generation,
            wants_running=app.spec.running,
            wants_kubernetes=app.spec.kubernetes.enabled,
            is_template_applied=app_pass.is_template_applied,
            conditions=conditions,
            has_engine=discovery.is_enabled("engine", listed),
            has_kubernetes=discovery.is_enabled("kubernetes", listed),
        )

    # -- templates

    def _inputs(self, app_pass: AppPass) -> template.TemplateInputs:
        env = self._env
        keep_logs = bool(env.environment.get(KEEP_LOGS))
        if keep_logs:
            make_private_dir(env.instance.log_dir)
        return template.inputs_of(
            app_pass.app,
            app_pass.driver,
            env.instance,
            home=env.home,
            environment=env.environment,
            keep_logs=keep_logs,
        )

    def _text(self, app_pass: AppPass) -> str:
        return template.text_of(self._inputs(app_pass))

    # -- reading

    async def _get(self, kind: AnyResource, key: ObjectKey) -> Object | None:
        try:
            return await self._client.get(resource_of(kind), key.name, namespace=key.namespace)
        except errors.NotFound:
            return None
