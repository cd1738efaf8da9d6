# SPDX-License-Identifier: Apache-2.0
"""Paths and operations of resources in OpenAPI documents.

Every resource has the same operations at the same places, so they are written
down once, as a table, and rendered for v2 or v3. Clients look at the operation
ids (generators), at x-kubernetes-action and x-kubernetes-group-version-kind
(kubectl finds the kind of a path by them) and at query parameters (kubectl
asks for fieldValidation only where it is listed).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rdd.api import mediatypes
from rdd.schema.openapi import parameters

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
V3_PREFIX = "#/components/schemas/"
V2_PREFIX = "#/definitions/"
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_PATCH_TYPES = (mediatypes.APPLY_PATCH, mediatypes.JSON_PATCH, mediatypes.MERGE_PATCH)


@dataclass(frozen=True, slots=True)
class OpenApiKind:
    """A resource as far as OpenAPI describes it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    definition: str
    """Name of the definition of an object."""
    list_definition: str = ""
    """Name of the definition of a list; empty if there are no lists."""
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Name, definition of its body and verbs of each subresource."""
    patch_types: tuple[str, ...] = (*CUSTOM_PATCH_TYPES, mediatypes.STRATEGIC_MERGE_PATCH)
    """The media types that PATCH accepts."""

    @property
    def is_builtin(self) -> bool:
        """Whether the kind is no custom resource."""
        return mediatypes.STRATEGIC_MERGE_PATCH in self.patch_types

    @property
    def answers(self) -> tuple[str, ...]:
        """The media types of objects."""
        return _BUILTIN_ANSWERS if self.is_builtin else _ANSWERS


_STATUS = f"{META}.Status"
_PATCH = f"{META}.Patch"
_DELETE_OPTIONS = f"{META}.DeleteOptions"
_WATCH_EVENT = f"{META}.WatchEvent"
_ANSWERS = (mediatypes.JSON, mediatypes.YAML)
_BUILTIN_ANSWERS = (mediatypes.JSON, mediatypes.YAML, mediatypes.PROTOBUF)
_STREAMS = (f"{mediatypes.JSON};stream=watch", f"{mediatypes.PROTOBUF};stream=watch")

_LIST = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit",
    "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_DELETE_COLLECTION = tuple(sorted({*_LIST, *_DELETE} - {"allowWatchBookmarks", "watch"}))


@dataclass(frozen=True, slots=True)
class _Operation:
    method: str
    action: str
    """As in x-kubernetes-action."""
    word: str
    """First part of the operation id."""
    answer: str
    """Definition of the answer."""
    codes: tuple[int, ...] = (200,)
    query: tuple[str, ...] = ()
    body: str = ""
    """Definition of the request body."""
    suffix: str = ""
    """Last part of the operation id."""


def _collection(kind: OpenApiKind) -> Iterator[_Operation]:
    if "list" in kind.verbs:
        yield _Operation("get", "list", "list", kind.list_definition, query=_LIST)
    if "create" in kind.verbs:
        yield _Operation(
            "post", "post", "create", kind.definition, (200, 201, 202), _WRITE, kind.definition
        )
    if "deletecollection" in kind.verbs:
        yield _Operation(
            "delete",
            "deletecollection",
            "deletecollection",
            _STATUS,
            query=_DELETE_COLLECTION,
            body=_DELETE_OPTIONS,
        )


def _single(verbs: tuple[str, ...], definition: str, suffix: str) -> Iterator[_Operation]:
    if "get" in verbs:
        read: tuple[str, ...] = () if suffix else ("resourceVersion",)
        yield _Operation("get", "get", "read", definition, query=read, suffix=suffix)
    if "update" in verbs:
        yield _Operation(
            "put", "put", "replace", definition, (200, 201), _WRITE, definition, suffix
        )
    if "patch" in verbs:
        query = ("dryRun", "fieldManager of a patch", "fieldValidation", "force")
        yield _Operation("patch", "patch", "patch", definition, (200, 201), query, _PATCH, suffix)
    if "delete" in verbs:
        yield _Operation(
            "delete", "delete", "delete", _STATUS, (200, 202), _DELETE, _DELETE_OPTIONS, suffix
        )
    if "create" in verbs and suffix:
        yield _Operation(
            "post", "post", "create", definition, (200, 201, 202), _WRITE, definition, suffix
        )


def _paths(kind: OpenApiKind) -> Iterator[tuple[str, bool, list[_Operation]]]:
    """Yield path, whether it spans all namespaces, and operations."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.is_builtin and "watch" in kind.verbs:
        yield from _watch_paths(kind, root)
    base = f"{root}/{kind.plural}"
    if kind.namespaced:
        if "list" in kind.verbs:
            yield base, True, [op for op in _collection(kind) if op.action == "list"]
        base = f"{root}/namespaces/{{namespace}}/{kind.plural}"
    operations = list(_collection(kind))
    if operations:
        yield base, False, operations
    single = tuple(v for v in kind.verbs if v in ("get", "update", "patch", "delete"))
    operations = list(_single(single, kind.definition, ""))
    if operations:
        yield f"{base}/{{name}}", False, operations
    for name, definition, verbs in kind.subresources:
        suffix = name[:1].upper() + name[1:]
        operations = list(_single(verbs, definition, suffix))
        yield f"{base}/{{name}}/{name}", False, operations


def _watch_paths(kind: OpenApiKind, root: str) -> Iterator[tuple[str, bool, list[_Operation]]]:
    """Yield the deprecated paths that watch without a parameter."""
    several = _Operation("get", "watchlist", "watch", _WATCH_EVENT, suffix="List")
    base = f"{root}/watch/{kind.plural}"
    if kind.namespaced:
        yield base, True, [several]
        base = f"{root}/watch/namespaces/{{namespace}}/{kind.plural}"
    yield base, False, [several]
    yield f"{base}/{{name}}", False, [_Operation("get", "watch", "watch", _WATCH_EVENT)]


def capital_words(text: str) -> str:
    """Return a text as a part of operation ids."""
    return _words(text, capital=True)


def group_tag(group: str) -> str:
    """Return the tag of the operations of a group."""
    return _words(group.removesuffix(".k8s.io") or "core", capital=False)


def _words(text: str, *, capital: bool) -> str:
    """Return letters and digits of a text, with a capital where something else was."""
    found = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))
    return found if capital else found[:1].lower() + found[1:]


def operation_id(kind: OpenApiKind, word: str, suffix: str, *, everywhere: bool) -> str:
    """readCoreV1NamespacedConfigMap and the like."""
    group = kind.group.removesuffix(".k8s.io") or "core"
    # "delete" is the verb of deletecollection, too; the rest of the word follows the version
    verb, rest = ("delete", "Collection") if word == "deletecollection" else (word, "")
    scope = "Namespaced" if kind.namespaced and not everywhere else ""
    tail = "ForAllNamespaces" if everywhere else ""
    where = _words(group, capital=True) + _words(kind.version, capital=True)
    return f"{verb}{where}{rest}{scope}{kind.kind}{suffix}{tail}"


def _describe(kind: OpenApiKind, operation: _Operation) -> str:
    sub = f" {operation.suffix.lower()} of" if operation.suffix else ""
    if operation.action == "watchlist":
        return (
            f"watch individual changes to a list of {kind.kind}. deprecated: use the 'watch' "
            "parameter with a list operation instead."
        )
    if operation.action == "watch":
        return (
            f"watch changes to an object of kind {kind.kind}. deprecated: use the 'watch' "
            "parameter with a list operation instead, filtered to a single item with the "
            "'fieldSelector' parameter."
        )
    if operation.word == "list":
        return f"list or watch objects of kind {kind.kind}"
    if operation.word == "deletecollection":
        return f"delete collection of {kind.kind}"
    if operation.word in ("create", "delete"):
        article = "an" if kind.kind[:1] in "AEIOU" else "a"
        return f"{operation.word}{sub} {article} {kind.kind}"
    verb = "partially update" if operation.word == "patch" else operation.word
    return f"{verb}{sub} the specified {kind.kind}"


def _common(kind: OpenApiKind, operation: _Operation, *, everywhere: bool) -> dict[str, Any]:
    tag = f"{group_tag(kind.group)}_{_words(kind.version, capital=False)}"
    named = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    return {
        "description": _describe(kind, operation),
        "operationId": operation_id(kind, operation.word, operation.suffix, everywhere=everywhere),
        "tags": [tag],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": named,
    }


_CODES = {200: "OK", 201: "Created", 202: "Accepted"}


def path_items_v3(kind: OpenApiKind) -> dict[str, Any]:
    """Return the path items of a kind for a v3 document."""

    def operation_v3(operation: _Operation, *, everywhere: bool) -> dict[str, Any]:
        answer = {"schema": {"$ref": V3_PREFIX + operation.answer}}
        types = kind.answers
        if operation.action in ("list", "watchlist", "watch") and "watch" in kind.verbs:
            types = (*types, *(_STREAMS if kind.is_builtin else _STREAMS[:1]))
        item: dict[str, Any] = {
            **_common(kind, operation, everywhere=everywhere),
            "responses": {
                **{
                    str(code): {
                        "description": _CODES[code],
                        "content": dict.fromkeys(types, answer),
                    }
                    for code in operation.codes
                },
                "401": {"description": "Unauthorized"},
            },
        }
        if operation.query:
            item["parameters"] = [parameters.v3(name) for name in operation.query]
        if operation.body:
            media_types = kind.patch_types if operation.body == _PATCH else ("*/*",)
            if not kind.is_builtin and operation.body != _PATCH:
                media_types = _ANSWERS
            body = {"schema": {"$ref": V3_PREFIX + operation.body}}
            item["requestBody"] = {"content": dict.fromkeys(media_types, body)}
            if operation.body != _DELETE_OPTIONS:
                item["requestBody"]["required"] = True
        return item

    items: dict[str, Any] = {}
    for path, everywhere, operations in _paths(kind):
        items[path] = {
            **{op.method: operation_v3(op, everywhere=everywhere) for op in operations},
            "parameters": [
                *(
                    {
                        "description": description,
                        "in": "path",
                        "name": name,
                        "required": True,
                        "schema": {"type": "string", "uniqueItems": True},
                    }
                    for name, description in _path_parameters(kind, path)
                ),
                *(parameters.v3(name) for name in _shared_parameters(operations)),
            ],
        }
    return items


def path_items_v2(kind: OpenApiKind) -> dict[str, Any]:
    """Return the path items of a kind for a v2 document."""

    def operation_v2(operation: _Operation, *, everywhere: bool) -> dict[str, Any]:
        answer = {"$ref": V2_PREFIX + operation.answer}
        found = [parameters.v2(name) for name in operation.query]
        consumes = ["*/*"] if kind.is_builtin else list(_ANSWERS)
        if operation.body:
            body: dict[str, Any] = {
                "in": "body",
                "name": "body",
                "schema": {"$ref": V2_PREFIX + operation.body},
            }
            if operation.body != _DELETE_OPTIONS:
                body["required"] = True
            found.append(body)
            if operation.body == _PATCH:
                consumes = list(kind.patch_types)
        return {
            **_common(kind, operation, everywhere=everywhere),
            "consumes": consumes,
            "parameters": found,
            "produces": _produces(kind, operation),
            "responses": {
                **{
                    str(code): {"description": _CODES[code], "schema": answer}
                    for code in operation.codes
                },
                "401": {"description": "Unauthorized"},
            },
            "schemes": ["https"],
        }

    items: dict[str, Any] = {}
    for path, everywhere, operations in _paths(kind):
        items[path] = {
            **{op.method: operation_v2(op, everywhere=everywhere) for op in operations},
            "parameters": [
                *(
                    {
                        "description": description,
                        "in": "path",
                        "name": name,
                        "required": True,
                        "type": "string",
                        "uniqueItems": True,
                    }
                    for name, description in _path_parameters(kind, path)
                ),
                *(parameters.v2(name) for name in _shared_parameters(operations)),
            ],
        }
    return items


def _path_parameters(kind: OpenApiKind, path: str) -> list[tuple[str, str]]:
    found = []
    if "{name}" in path:
        found.append(("name", f"name of the {kind.kind}"))
    if "{namespace}" in path:
        text = "object name and auth scope, such as for teams and projects"
        found.append(("namespace", text))
    return found


def _shared_parameters(operations: list[_Operation]) -> tuple[str, ...]:
    """Return the query parameters of a whole path; deprecated watches have all of a list."""
    if operations[0].word != "watch":
        return ("pretty",)
    return tuple(sorted((*_LIST, "pretty")))


def _produces(kind: OpenApiKind, operation: _Operation) -> list[str]:
    has_streams = operation.action in ("list", "watchlist", "watch") and kind.is_builtin
    return [*kind.answers, *(_STREAMS if has_streams else ())]
