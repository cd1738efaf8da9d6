# SPDX-License-Identifier: Apache-2.0
"""The fields of a profile, as an OpenAPI schema: one section per controller.

    app        defaults and locks of the App's settings
    limavm     which virtual machines may exist
    resource   what may be fetched from where, with which checksums
    image      which images may be pulled and run
    rdd        what clients of the API may do at all

The sections `app.defaults` and `app.locked` have the schema of the App's spec, in which nothing
is required and nothing has a default. docs/profiles.md describes all fields; a test compares.
"""

from typing import Any, Final

from rdd.api import names
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of

API_VERSION: Final = f"{names.RDD_GROUP}/{names.VERSION}"
KIND: Final = "DeploymentProfile"
ANY_MACHINE, ONLY_APP = "any", "app"

_DIGEST = {
    "type": "string",
    "pattern": r"^(sha256:[0-9a-fA-F]{64}|sha384:[0-9a-fA-F]{96}|sha512:[0-9a-fA-F]{128})$",
}
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 1000}
_NAMES = {**_TEXTS, "items": {"type": "string"}}  # the core group is ""
_RULE_FIELDS = ("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs")
_NOT_SETTINGS = ("running",)
"""Members of the App's spec that are commands, not settings."""


def schema() -> dict[str, Any]:
    """Return the schema of a profile."""
    settings = _settings()
    rule = {
        "type": "object",
        "properties": dict.fromkeys(_RULE_FIELDS, _NAMES),
        "required": ["verbs"],
    }
    return _object(
        apiVersion={"type": "string", "enum": [API_VERSION]},
        kind={"type": "string", "enum": [KIND]},
        rdd=_object(rules={"type": "array", "items": rule, "maxItems": 1000}),
        app=_object(defaults=settings, locked=settings),
        limavm=_object(
            machines={"type": "string", "enum": [ANY_MACHINE, ONLY_APP]},
            templates={"type": "array", "items": _DIGEST, "maxItems": 1000},
        ),
        resource=_object(
            urls=_TEXTS,
            requireDigest={"type": "boolean"},
            digests={
                "type": "array",
                "maxItems": 1000,
                "items": {
                    **_object(url={"type": "string", "minLength": 1}, digest=_DIGEST),
                    "required": ["url", "digest"],
                },
            },
        ),
        image=_object(allowed=_TEXTS, local=_TEXTS),
    )


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _settings() -> dict[str, Any]:
    definition = definition_of(App)
    version = definition["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    partial = _partial(spec)
    for name in _NOT_SETTINGS:
        del partial["properties"][name]
    return partial


def _partial(node: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in which each member may be absent; lists are values as a whole."""
    dropped = ("required", "default", "description", "x-kubernetes-validations")
    kept = {key: value for key, value in node.items() if key not in dropped}
    if "properties" in kept:
        kept["properties"] = {name: _partial(sub) for name, sub in kept["properties"].items()}
    return kept
