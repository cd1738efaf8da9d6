# SPDX-License-Identifier: Apache-2.0
"""Whether the deployment profile allows a machine to start, checked at each start.

Admission refuses most of it earlier. This check holds against what does not pass admission: a
database that was edited or restored, a `lima.yaml` that was changed, an App that became invalid
because the profile changed. It reads the text that is on disk, which is what would be started.

The machine of the App must have exactly the template that the App's settings give while any of
them is locked: everything a template can do could get around a lock.
"""

from rdd.api import errors, names
from rdd.client import Client
from rdd.controllers.app.app import template
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import is_controlled_by, resource_of


class StartCheck:
    """Answers for the machines of one instance."""

    def __init__(self, client: Client, env: ControllerEnvironment) -> None:
        self._client = client
        self._env = env

    async def problem(self, vm: LimaVM, text: str | None) -> str:
        """Return why a machine with this template may not start; empty if it may."""
        rules = self._env.rules()
        if rules is None:
            return ""
        app = await self._app_of(vm)
        if app is not None:
            if problem := rules.app_problem(app.raw):
                return problem
            if rules.locks and not self._is_apps_template(vm, app, text):
                return (
                    "the virtual machine does not have the template of the App's settings, which "
                    f"are locked by {rules.path}; the controller app replaces it"
                )
        return rules.machine_problem(is_apps=app is not None, template=text)

    async def _app_of(self, vm: LimaVM) -> App | None:
        """Return the App if the machine is its own."""
        metadata = vm.raw["metadata"]
        if metadata["name"] != names.APP_VM_NAME:
            return None
        try:
            found = await self._client.get(resource_of(App), names.APP_NAME)
        except errors.NotFound:
            return None
        app = App.of(found)
        is_own = is_controlled_by(vm.raw, found)
        return app if is_own and app.spec.namespace == metadata["namespace"] else None

    def _is_apps_template(self, vm: LimaVM, app: App, text: str | None) -> bool:
        driver = app.status.virtual_machine_type
        if (vm.raw["metadata"].get("annotations") or {}).get(names.DRIVER, driver) != driver:
            return False
        return any(
            text
            == template.text_of(
                template.inputs_of(
                    app,
                    driver,
                    self._env.instance,
                    home=self._env.home,
                    environment=self._env.environment,
                    keep_logs=keeps_logs,
                )
            )
            # The controller app may run in a process with other variables.
            for keeps_logs in (False, True)
        )
