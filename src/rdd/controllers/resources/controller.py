# SPDX-License-Identifier: Apache-2.0
"""resource, urlmonitor: what rdd fetches.

resource     fetches the files of Resources for Checkouts: nothing is fetched without one, and
             deleting it cancels the fetch (`checkouts`)
urlmonitor   fetches the URLs of URLMonitors at their intervals (`monitors`)

`reasons` has the condition Ready of both, `app_network` the proxies of the App, `fetcher` what the
two reconcilers share.
"""

from collections.abc import Iterable

from rdd.api.types import Object
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.resources.checkouts import CheckoutReconciler
from rdd.controllers.resources.monitors import MonitorReconciler
from rdd.fetch.cache import Cache
from rdd.kinds.crd import definition_of
from rdd.kinds.resource import Checkout, Resource
from rdd.kinds.urlmonitor import URLMonitor
from rdd.runtime import Context, Controller, ObjectKey, generation_changed, maps, watch

__all__ = ["resource", "urlmonitor"]


def resource(env: ControllerEnvironment) -> Controller:
    """Return the controller of Resources and Checkouts."""
    cache = Cache.of_user(env.environment, env.home)
    owner = env.instance.suffix

    def reconciler(context: Context) -> CheckoutReconciler:
        return CheckoutReconciler(context, cache, owner, env.sources)

    return Controller(
        "resource",
        reconciler,
        sources=(
            watch(Checkout, generation_changed),
            maps(Resource, _resource_keys, generation_changed),
        ),
        definitions=(definition_of(Resource), definition_of(Checkout)),
    )


def urlmonitor(env: ControllerEnvironment) -> Controller:
    """Return the controller of URLMonitors."""
    cache = Cache.of_user(env.environment, env.home)
    owner = env.instance.suffix

    def reconciler(context: Context) -> MonitorReconciler:
        return MonitorReconciler(context, cache, owner, env.sources)

    return Controller(
        "urlmonitor",
        reconciler,
        sources=(watch(URLMonitor, generation_changed),),
        definitions=(definition_of(URLMonitor),),
    )


def _resource_keys(obj: Object) -> Iterable[ObjectKey]:
    """Return the key of a Resource: Checkouts have a namespace, Resources have none."""
    return (ObjectKey("", obj["metadata"]["name"]),)
