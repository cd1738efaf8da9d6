# SPDX-License-Identifier: Apache-2.0
"""The App as a resource: path, schema, create and patch.

There is at most one App. The first write creates it with zero values for required
fields, so that defaulting and admission complete it; later writes are merge patches of
the spec.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.properties import Schema, spec_schema, with_required
from rdd.cli.framework.connection import get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

FIELD_MANAGER = "rdd"
APPS = f"{names.APP_API}/apps"
APP = f"{APPS}/{names.APP_NAME}"
_DEFINITION = f"/apis/{names.EXTENSIONS_GROUP}/v1/customresourcedefinitions/apps.{names.APP_GROUP}"


def app_schema(connection: "Connection") -> Schema:
    """Return the schema of the settable properties. Raises CommandError without the App CRD."""
    definition = get_or_none(connection, _DEFINITION)
    if definition is None:
        raise CommandError(
            "the control plane does not serve Apps: start it with the app controller "
            "(`rdd service start` with --controllers=* or app)"
        )
    return spec_schema(definition)


def write(
    call: Call,
    connection: "Connection",
    spec: Object,
    schema: Schema,
    *,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """Create the App with a spec, or patch the spec of the existing one."""
    from rdd.api.errors import ApiError

    if get_or_none(connection, APP) is None:
        try:
            created = create(connection, with_required(spec, schema), annotations=annotations)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        else:
            call.log.info("App created")
            return created
    updated = patch(connection, spec, annotations=annotations)
    call.log.info("App updated")
    return updated


def validate(call: Call, connection: "Connection", spec: Object, schema: Schema) -> Object:
    """Validate a change by a server-side dry run.

    Admission needs an existing App: a missing one is created with defaults, not running,
    and the log reports it.
    """
    from rdd.api.errors import ApiError

    if get_or_none(connection, APP) is None:
        try:
            create(connection, with_required({}, schema))
            call.log.at_least("info").info(
                "App created with defaults, not running: there was none to validate against"
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    validated = patch(connection, spec, {"dryRun": "All"})
    call.log.info("App validated (dry run)")
    return validated


def create(
    connection: "Connection", spec: Object, *, annotations: Mapping[str, str] | None = None
) -> Object:
    """Create the App with a complete spec."""
    created: Object = connection.request(
        "POST",
        APPS,
        body={
            "apiVersion": f"{names.APP_GROUP}/{names.VERSION}",
            "kind": "App",
            "metadata": {"name": names.APP_NAME, "annotations": dict(annotations or {})},
            "spec": spec,
        },
        query={"fieldManager": FIELD_MANAGER},
    )
    return created


def patch(
    connection: "Connection",
    spec: Object,
    query: dict[str, str] | None = None,
    *,
    version: str = "",
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """Apply a merge patch to the spec; with a `version` only if the App still has it."""
    from rdd.api.mediatypes import MERGE_PATCH

    body = _explicit(spec)
    if annotations:
        body.setdefault("metadata", {}).setdefault("annotations", {}).update(annotations)
    if version:
        body.setdefault("metadata", {})["resourceVersion"] = version
    patched: Object = connection.request(
        "PATCH",
        APP,
        body=body,
        content_type=MERGE_PATCH,
        query={"fieldManager": FIELD_MANAGER, **(query or {})},
    )
    return patched


def _explicit(spec: Object) -> Object:
    """Return the patch of a spec; values that it sets are no defaults, even if they are equal."""
    marks = {"cpus": names.CPUS_DEFAULTED, "memory": names.MEMORY_DEFAULTED}
    given = [mark for name, mark in marks.items() if (spec.get("virtualMachine") or {}).get(name)]
    if not given:
        return {"spec": spec}
    return {"metadata": {"annotations": dict.fromkeys(given, "false")}, "spec": spec}
