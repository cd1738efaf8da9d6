# SPDX-License-Identifier: Apache-2.0
"""Objects of the benchmarks: ConfigMaps of one KiB, and a custom resource.

Texts are random but fixed, so that runs are comparable and compress badly. The custom
resource has a typical schema of operators: required members, defaults, patterns, ranges, an
enumeration and a list keyed by name.
"""

import random
import string
from typing import Any

import orjson

VALUE_BYTES = 1024
CONFIGMAPS = "/api/v1/namespaces/{}/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_random = random.Random(1)
TEXTS = [
    "".join(_random.choices(string.ascii_letters + string.digits, k=VALUE_BYTES)) for _ in range(50)
]


def text(number: int) -> str:
    """Return one of a few random texts."""
    return TEXTS[number % len(TEXTS)]


def namespace(name: str) -> bytes:
    """Return a Namespace."""
    return orjson.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def configmap(name: str, number: int, *, mark: str = "") -> bytes:
    """Return a ConfigMap with a value of one KiB, and a mark that makes it unique."""
    data = {"value": text(number)}
    if mark:
        data["mark"] = mark
    return orjson.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    )


def crd(group: str, plural: str = "gadgets") -> bytes:
    """Return a CustomResourceDefinition of namespaced objects with a status."""
    kind = plural[:-1].capitalize()
    return orjson.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": _SCHEMA},
                        "additionalPrinterColumns": [
                            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        ],
                    }
                ],
            },
        }
    )


def custom(group: str, name: str, number: int, *, size: int) -> bytes:
    """Return an object of that definition, about as large as the ConfigMaps."""
    return orjson.dumps(
        {
            "apiVersion": f"{group}/v1",
            "kind": "Gadget",
            "metadata": {"name": name, "labels": {"app": "bench", "part": "load"}},
            "spec": {
                "source": "registry.example.com/team/gadget:1.2.3",
                "class": "standard",
                "size": size,
                "comment": text(number)[:700],
                "settings": {"first": "1", "second": "2"},
                "endpoints": [
                    {"name": "web", "port": 8080},
                    {"name": "metrics", "port": 9090, "protocol": "TCP"},
                ],
            },
        }
    )


_TEXT = {"type": "string"}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["source", "class"],
            "properties": {
                "source": {
                    "type": "string",
                    "maxLength": 250,
                    "pattern": "^[a-z0-9][a-z0-9./:-]*$",
                },
                "class": {"type": "string", "enum": ["small", "standard", "large"]},
                "size": {"type": "integer", "minimum": 0, "default": 1},
                "suspended": {"type": "boolean", "default": False},
                "comment": {"type": "string", "maxLength": 2048},
                "settings": {"type": "object", "additionalProperties": _TEXT},
                "endpoints": {
                    "type": "array",
                    "maxItems": 16,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name", "port"],
                        "properties": {
                            "name": _TEXT,
                            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                            "protocol": {"type": "string", "default": "TCP"},
                        },
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": _TEXT,
                "observedGeneration": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type", "status"],
                        "properties": dict.fromkeys(
                            ("type", "status", "reason", "message", "lastTransitionTime"), _TEXT
                        ),
                    },
                },
            },
        },
    },
}
