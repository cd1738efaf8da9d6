# SPDX-License-Identifier: Apache-2.0
"""Which other controllers are enabled, according to the discovery ConfigMap.

The App waits for the engine and for Kubernetes only if their controllers run. If that is
unknown they count as enabled: waiting too long is better than being settled without Docker.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from rdd.api import names


def is_enabled(controller: str, config_map: Mapping[str, Any] | None) -> bool:
    """Return whether any manager lists a controller; True if that is unknown."""
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
