# SPDX-License-Identifier: Apache-2.0
"""Events about problems that no status can show."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from rdd.api import errors, names, timestamps
from rdd.client import ApiResource, Client
from rdd.client.resources import EVENTS

log = logging.getLogger("rdd.controllers.builtin")


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object an event is about."""

    resource: ApiResource
    namespace: str
    name: str
    uid: str


async def warn(
    client: Client,
    *,
    involved: ObjectReference,
    reason: str,
    message: str,
    component: str,
    clock: Callable[[], float] = time.time,
) -> None:
    """Record a Warning. A failure is only logged: it must not stop the controller."""
    now = timestamps.now_text(clock)
    # Events of cluster-scoped objects are in `default`.
    namespace = involved.namespace or names.DEFAULT_NAMESPACE
    about = {
        "kind": involved.resource.kind,
        "namespace": involved.namespace,
        "name": involved.name,
        "uid": involved.uid,
        "apiVersion": involved.resource.api_version,
    }
    event = {
        "metadata": {
            "name": f"{involved.name}.{int(clock() * 1e9):x}",
            "namespace": namespace,
        },
        "involvedObject": {key: value for key, value in about.items() if value},
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
    }
    try:
        await client.create(EVENTS, event)
    except (errors.ApiError, ConnectionError) as error:
        log.debug("cannot record event %s about %s: %s", reason, involved.name, error)
