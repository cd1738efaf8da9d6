# SPDX-License-Identifier: Apache-2.0
"""Which other controllers are at work, as the discovery ConfigMap says.

The App waits for the engine and for Kubernetes only if somebody looks after them. Who
cannot find out takes them for enabled: waiting a little too long is better than to be
settled without Docker.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from rdd.api import names


def is_enabled(controller: str, config_map: Mapping[str, Any] | None) -> bool:
    """Whether a controller is listed by any manager; also if that cannot be told yet."""
    if config_map is None:
        return True
    annotations = config_map["metadata"].get("annotations") or {}
    if annotations.get(names.READY) != "true":
        return True
    for entry in (config_map.get("data") or {}).values():
        try:
            listed = orjson.loads(entry).get("enabledControllers") or ()
        except (orjson.JSONDecodeError, AttributeError):
            return True
        if controller in listed:
            return True
    return False
