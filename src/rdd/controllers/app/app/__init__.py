# SPDX-License-Identifier: Apache-2.0
"""app: the App of this user becomes a virtual machine with a container engine.

admission       defaulting and validation
history         accepted changes of the spec, for `rdd history` and `rdd undo`
reconciler      the steps from the spec to the LimaVM; `deletion` reverts them
driver_choice   the driver for the type auto
programs        Kubernetes' program, fetched before a change (`engine_version`: the engine)
template        the template of the virtual machine (`network`, `scripts`)
ports           the port of the Kubernetes API, reserved until the machine uses it
settled         the condition Settled (`discovery`, `reasons`)
status          the App controller's part of the status
"""

from collections.abc import Callable, Iterable
from functools import partial

from rdd.api import names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app.admission import AppAdmission
from rdd.controllers.app.app.engine_version import selectable_versions
from rdd.controllers.app.app.reconciler import APP, AppReconciler
from rdd.controllers.app.k3s_versions import published_releases
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.runtime import Controller, ObjectKey, maps, watch
from rdd.toolbox.catalogue import Catalogue
from rdd.vm.drivers import catalog
from rdd.vm.drivers.selection import Probe


def app(
    env: ControllerEnvironment,
    *,
    probe: Probe = catalog.availability,
    catalogue: Callable[[], Catalogue] = Catalogue.shipped,
) -> Controller:
    """Create the controller of the App; `probe` returns whether a driver works here."""
    return Controller(
        "app",
        partial(AppReconciler, env=env, probe=probe, catalogue=catalogue),
        sources=(
            watch(App),
            maps(NAMESPACES, _app),
            maps(CONFIG_MAPS, _app, label_selector=f"{names.TEMPLATE_LABEL}=true"),
            maps(CONFIG_MAPS, _app, namespace=names.SYSTEM_NAMESPACE),
        ),
        definitions=(definition_of(App),),
        webhooks=lambda context: AppAdmission(
            env.environment,
            probe=probe,
            engines=partial(selectable_versions, env.instance, catalogue),
            releases=partial(published_releases, context.client),
        ).webhooks(),
    )


def _app(_: Object) -> Iterable[ObjectKey]:
    return (APP,)
