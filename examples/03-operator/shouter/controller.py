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
    """Applies the ConfigMap, then says so."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.shouts = context.cache.of(Shout)
        self.status = StatusWriter(context, Shout)

    async def reconcile(self, key: ObjectKey) -> Result:
        shout = self.shouts.get(key)
        if shout is None or shout.metadata.deletion_timestamp:
            return Result.done()  # the ConfigMap goes with its owner
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
        condition = Condition("Shouted", "True", "Applied")
        await self.status.write(shout.raw, condition)
        self.context.events.event(shout.raw, "Normal", "Shouted", f"{shout.spec.text} is out")
        return Result.done()


async def check(request: AdmissionRequest[Shout]) -> None:
    """Refuse what nobody wants to hear."""
    if request.object.spec.times > 3:
        raise Denied("three times is enough")


def shouter() -> Controller:
    """The controller, declared."""
    return Controller(
        "shouter",
        ShoutReconciler,
        sources=(watch(Shout, generation_changed), owns(CONFIG_MAPS, Shout)),
        definitions=(definition_of(Shout),),
        webhooks=(validating("shout-validator", Shout, check),),
    )
