# SPDX-License-Identifier: Apache-2.0
"""OpenAPI of the built-in groups.

The shapes of the built-in kinds give the definitions (rdd.schema.builtin), the
paths are those every resource has (rdd.schema.openapi.documents). Documents are made when
they are requested and not cached here: they are large, rarely used, and the
caller detects changes of the served set.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rdd.schema.builtin import notation, openapi_definitions
from rdd.schema.openapi.documents import OpenApiKind, openapi_v2_document, openapi_v3_document
from rdd.schema.openapi.paths import META


class ServedKind(Protocol):
    """The members of an apiserver ResourceDefinition that OpenAPI describes."""

    @property
    def group(self) -> str:
        """Return API group."""

    @property
    def version(self) -> str:
        """Return version."""

    @property
    def kind(self) -> str:
        """Return kind."""

    @property
    def plural(self) -> str:
        """Return resource."""

    @property
    def namespaced(self) -> bool:
        """Return whether objects live in namespaces."""

    @property
    def definition(self) -> str:
        """Return name of the definition."""

    @property
    def subresources(self) -> tuple[str, ...]:
        """Return names of the subresources."""


_ALWAYS = tuple(
    f"{META}.{name}"
    for name in (
        *("APIVersions", "APIGroupList", "APIGroup", "APIResourceList"),
        *("DeleteOptions", "Patch", "Status", "WatchEvent"),
    )
)
"""Definitions of every document, whether its paths need them or not."""

_SUBRESOURCE_VERBS = {"finalize": ("update",), "token": ("create",)}
_DEFAULT_VERBS = ("get", "patch", "update")


def openapi_kind(kind: ServedKind, verbs: tuple[str, ...]) -> OpenApiKind:
    """Return a built-in kind with its verbs in the form documents are made of."""
    return OpenApiKind(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=kind.plural,
        namespaced=kind.namespaced,
        definition=kind.definition,
        list_definition=f"{kind.definition}List" if "list" in verbs else "",
        verbs=verbs,
        subresources=tuple(
            (name, _body(kind, name), _SUBRESOURCE_VERBS.get(name, _DEFAULT_VERBS))
            for name in kind.subresources
        ),
    )


def _body(kind: ServedKind, subresource: str) -> str:
    if subresource == "token":
        return notation.short_name("authentication", "TokenRequest")
    if subresource == "scale":
        return notation.short_name("autoscaling", "Scale")
    return kind.definition


def builtin_definitions(kinds: Iterable[OpenApiKind]) -> dict[str, Any]:
    """Return the v3 definitions that kinds need, with all they refer to, by name."""
    wanted = list(_ALWAYS)
    groups = set()
    for kind in kinds:
        groups.add((kind.group, kind.version))
        wanted += [kind.definition, *(body for _, body, _ in kind.subresources)]
        if kind.list_definition:
            wanted.append(kind.list_definition)
    return openapi_definitions.closure(wanted, groups=tuple(sorted(groups)))


def builtin_v3_document(
    kinds: Sequence[OpenApiKind], *, version: str = "unversioned"
) -> dict[str, Any]:
    """Return the v3 document of one built-in group version."""
    return openapi_v3_document(kinds, builtin_definitions(kinds), version=version)


def builtin_v2_document(
    kinds: Sequence[OpenApiKind], *, version: str = "unversioned"
) -> dict[str, Any]:
    """Return the v2 document of built-in kinds only (`documents` has all of a server)."""
    return openapi_v2_document(kinds, builtin_definitions(kinds), version=version)
