# SPDX-License-Identifier: Apache-2.0
"""The controller: every Shout has a ConfigMap of the same name with the text in capitals."""

from rdd.client.resources import CONFIG_MAPS
from rdd.kinds.crd import definition_of
from rdd.runtime import (
    AdmissionRequest,
    Condition,
    Context,
    Controller,
    Denied,
    ObjectKey,
    Result,
    StatusWriter,
    generation_changed,
    owner_reference,
    owns,
    validating,
    watch,
)

from .kind import Shout


class ShoutReconciler:
    """Applies the ConfigMap and writes the status."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.shouts = context.cache.of(Shout)
        self.status = StatusWriter(context, Shout)

    async def reconcile(self, key: ObjectKey) -> Result:
        shout = self.shouts.get(key)
        if shout is None or shout.metadata.deletion_timestamp:
            return Result.done()  # the garbage collector deletes the ConfigMap
        await self.context.client.apply(
            CONFIG_MAPS,
            {
                "metadata": {
                    "name": key.name,
                    "namespace": key.namespace,
                    "ownerReferences": [owner_reference(shout.raw)],
                },
                "data": {"text": " ".join([shout.spec.text.upper()] * shout.spec.times)},
            },
            field_manager="shouter",
            force=True,
        )
        await self.status.write(shout.raw, Condition("Shouted", "True", "Applied"))
        self.context.events.event(shout.raw, "Normal", "Shouted", f"{shout.spec.text} is out")
        return Result.done()


async def check(request: AdmissionRequest[Shout]) -> None:
    """Reject more than three repetitions."""
    if request.object.spec.times > 3:
        raise Denied("three times is enough")


def shouter() -> Controller:
    """Return the controller."""
    return Controller(
        "shouter",
        ShoutReconciler,
        sources=(watch(Shout, generation_changed), owns(CONFIG_MAPS, Shout)),
        definitions=(definition_of(Shout),),
        webhooks=(validating("shout-validator", Shout, check),),
    )
