# SPDX-License-Identifier: Apache-2.0
"""Collects the kinds of a document and the definitions they need."""

from collections.abc import Mapping
from typing import Any

from rdd.schema.builtin import openapi_definitions as shapes
from rdd.schema.openapi import builtin, documents
from rdd.schema.openapi.paths import META, OpenApiKind

_CUSTOM_NEEDS = (f"{META}.ObjectMeta", f"{META}.ListMeta", "io.k8s.api.autoscaling.v1.Scale")


class KindCollector:
    """The kinds and definitions of one document, v2 or v3."""

    def __init__(self, *, v2: bool) -> None:
        self._v2 = v2
        self._builtin: list[OpenApiKind] = []
        self._custom: list[OpenApiKind] = []
        self._custom_definitions: dict[str, Any] = {}

    def add_builtin(self, kind: builtin.ServedKind, verbs: tuple[str, ...]) -> None:
        """Add a built-in kind."""
        self._builtin.append(builtin.openapi_kind(kind, verbs))

    def add_custom(self, spec: Mapping[str, Any], version: Mapping[str, Any]) -> None:
        """Add a version of a custom resource definition."""
        self._custom.append(documents.crd_kind(spec, version))
        self._custom_definitions |= documents.crd_definitions(spec, version, v2=self._v2)

    @property
    def kinds(self) -> list[OpenApiKind]:
        """All collected kinds."""
        return [*self._builtin, *self._custom]

    def definitions(self) -> dict[str, Any]:
        """Return the definitions that the kinds refer to, in v3 form."""
        needed = shapes.closure(list(_CUSTOM_NEEDS)) if self._custom else {}
        return builtin.builtin_definitions(self._builtin) | self._custom_definitions | needed
