# SPDX-License-Identifier: Apache-2.0
"""resource: fetches the files of Resources for the Checkouts that need them.

Nothing is fetched without a Checkout, and deleting it cancels the fetch. `checkouts` runs the
fetches, `reasons` has the condition Ready.
"""

from collections.abc import Iterable

from rdd.api.types import Object
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.resources.checkouts import CheckoutReconciler
from rdd.fetch.cache import Cache
from rdd.kinds.crd import definition_of
from rdd.kinds.resource import Checkout, Resource
from rdd.runtime import Context, Controller, ObjectKey, generation_changed, maps, watch

__all__ = ["resource"]


def resource(env: ControllerEnvironment) -> Controller:
    """Return the controller of Resources and Checkouts."""
    cache = Cache.of_user(env.environment, env.home)
    owner = env.instance.suffix

    def reconciler(context: Context) -> CheckoutReconciler:
        return CheckoutReconciler(context, cache, owner)

    return Controller(
        "resource",
        reconciler,
        sources=(
            watch(Checkout, generation_changed),
            maps(Resource, _resource_keys, generation_changed),
        ),
        definitions=(definition_of(Resource), definition_of(Checkout)),
    )


def _resource_keys(obj: Object) -> Iterable[ObjectKey]:
    """Return the key of a Resource: Checkouts have a namespace, Resources have none."""
    return (ObjectKey("", obj["metadata"]["name"]),)
