# SPDX-License-Identifier: Apache-2.0
"""Schemas of the server, from its OpenAPI v3 documents.

`explain` uses them, and strategic merge patches for the keys that match items of
lists. The document of a group and version is fetched on first use.
"""

from functools import cached_property
from typing import Any

from rdd.client.resources import ApiResource
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.session import Session

Schema = dict[str, Any]
_GVK = "x-kubernetes-group-version-kind"
_MAX_REFERENCES = 8


class OpenApi:
    """The schemas of one group and version."""

    def __init__(self, session: Session, resource: ApiResource) -> None:
        self._session = session
        self._resource = resource

    @cached_property
    def _schemas(self) -> dict[str, Schema]:
        r = self._resource
        where = f"apis/{r.group}/{r.version}" if r.group else f"api/{r.version}"
        document = self._session.api.get(f"/openapi/v3/{where}")
        schemas: dict[str, Schema] = (document.get("components") or {}).get("schemas") or {}
        return schemas

    @cached_property
    def root(self) -> Schema:
        """The schema of the resource's objects. Raises KubectlError if it is missing."""
        r = self._resource
        wanted = {"group": r.group, "version": r.version, "kind": r.kind}
        for schema in self._schemas.values():
            if wanted in (schema.get(_GVK) or ()):
                return schema
        raise KubectlError(f'couldn\'t find resource for "{r.group}/{r.version}, Kind={r.kind}"')

    def resolved(self, schema: Schema) -> Schema:
        """Return the schema that a reference points to, with the reference's siblings."""
        for _ in range(_MAX_REFERENCES):
            reference = schema.get("$ref")
            alternatives = schema.get("allOf") or []
            if not reference and len(alternatives) == 1:
                reference = alternatives[0].get("$ref")
            if not reference:
                break
            siblings = {k: v for k, v in schema.items() if k not in ("$ref", "allOf", "default")}
            schema = {**self._schemas.get(reference_name(reference), {}), **siblings}
        return schema


def reference_name(reference: str) -> str:
    """Return the name of the schema that a reference points to."""
    return reference.rpartition("/")[2]
