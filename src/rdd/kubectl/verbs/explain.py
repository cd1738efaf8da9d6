# SPDX-License-Identifier: Apache-2.0
"""`explain TYPE[.FIELD…]`: show the fields of a resource, from the server's OpenAPI v3."""

from typing import Any

from rdd.base.pflag import Flag
from rdd.kubectl.errors import KubectlError, NoSuchResource, VerbatimError
from rdd.kubectl.flags import Verb
from rdd.kubectl.openapi import OpenApi, Schema, reference_name
from rdd.kubectl.session import Session

_WIDTH = 76
_MAX_ENUM = 4

VERB = Verb(
    "explain",
    "TYPE[.FIELD…] [--recursive]",
    "Show the fields of a resource",
    flags=(
        Flag("api-version", "version of the resource, e.g. apps/v1"),
        Flag("recursive", "show nested fields, without descriptions", "bool"),
        Flag("output", "plaintext", default="plaintext"),
    ),
)


def run(session: Session) -> None:
    if len(session.args) != 1:
        raise VerbatimError(
            'error: You must specify the type of resource to explain. Use "kubectl api-resources"'
            " for a complete list of supported resources."
            if not session.args
            else "error: We accept only this format: explain RESOURCE"
        )
    if session.flags.text("output") != "plaintext":
        raise KubectlError("--output must be plaintext")
    resource, path = _target(session, session.args[0])
    openapi = OpenApi(session, resource)
    lines = [f"GROUP:      {resource.group}"] if resource.group else []
    lines += [f"KIND:       {resource.kind}", f"VERSION:    {resource.version}", ""]
    session.print(*lines)
    session.out.write(_Explanation(openapi, session.flags.truth("recursive")).text(path))


def _target(session: Session, text: str) -> tuple[Any, list[str]]:
    """Return the resource and the path of the field: `crd.spec.names`, `roles.rules`."""
    word, *path = text.split(".")
    resource = None
    # The resource may be followed by a group; the longest match wins.
    for count in range(len(path), 0, -1):
        group = ".".join(path[:count])
        for candidate in session.resources.all:
            names = (candidate.plural, candidate.singular, *candidate.short_names)
            if candidate.group == group and word.lower() in names:
                resource, path = candidate, path[count:]
                break
        if resource:
            break
    if resource is None:
        try:
            resource = session.resource(word)
        except NoSuchResource as error:
            raise VerbatimError(str(error)) from None
    if wanted := session.flags.text("api-version"):
        found = session.resources.by_kind(wanted, resource.kind)
        if found is None:
            raise KubectlError(f'couldn\'t find resource for "{wanted}, Kind={resource.kind}"')
        resource = found
    return resource, path


class _Explanation:
    def __init__(self, openapi: OpenApi, is_recursive: bool) -> None:
        self._openapi = openapi
        self._is_recursive = is_recursive
        self._lines: list[str] = []

    def text(self, path: list[str]) -> str:
        """Return the text for the object, or for the field at a path."""
        schema: Schema = self._openapi.root
        for index, name in enumerate(path):
            parent = self._content(schema)
            found = (parent.get("properties") or {}).get(name)
            if found is None:
                raise KubectlError(f'field "{name}" does not exist')
            schema = found
            if index == len(path) - 1:
                self._lines += [f"FIELD: {name} <{self._type(schema)}>", ""]
                self._enum(schema, "")
                self._lines.append("")
        content = self._content(schema)
        self._description(schema, content)
        properties: dict[str, Schema] = content.get("properties") or {}
        if properties:
            self._lines.append("FIELDS:")
            self._fields(content, 1, seen=())
        self._lines.append("")
        return "\n".join(self._lines) + "\n"

    def _description(self, schema: Schema, content: Schema) -> None:
        self._lines.append("DESCRIPTION:")
        texts = [schema.get("description"), self._target_description(schema)]
        found = [text for text in dict.fromkeys(texts) if text]
        for text in found:
            self._lines += _wrapped(text, "    ")
        if not found:
            self._lines.append("    <empty>")
        else:
            self._lines.append("    ")

    def _target_description(self, schema: Schema) -> str:
        """Return the description of the referenced schema, or of the items of a list."""
        reference = _reference(schema) or _reference(schema.get("items") or {})
        if not reference:
            return str((schema.get("items") or {}).get("description") or "")
        return str(self._openapi.resolved({"$ref": reference}).get("description") or "")

    def _content(self, schema: Schema) -> Schema:
        """Return the schema with the properties: of the object, of list items or map values."""
        resolved = self._openapi.resolved(schema)
        for below in ("items", "additionalProperties"):
            inner = resolved.get(below)
            if isinstance(inner, dict):
                return self._content(inner)
        return resolved

    def _fields(self, content: Schema, level: int, seen: tuple[str, ...]) -> None:
        indent = "  " * level
        properties: dict[str, Schema] = content.get("properties") or {}
        for name in sorted(properties):
            schema = properties[name]
            required = " -required-" if name in (content.get("required") or ()) else ""
            self._lines.append(f"{indent}{name}\t<{self._type(schema)}>{required}")
            self._enum(schema, indent)
            if not self._is_recursive:
                text = str(schema.get("description") or "<no description>")
                self._lines += _wrapped(text, f"{indent}  ")
                self._lines.append("")
                continue
            reference = _inner_reference(schema)
            if reference and reference in seen:
                continue  # a schema that contains itself
            self._fields(self._content(schema), level + 1, (*seen, reference))

    def _enum(self, schema: Schema, indent: str) -> None:
        values = self._openapi.resolved(schema).get("enum")
        if values:
            shown = ", ".join(str(v) for v in values[:_MAX_ENUM])
            more = ", ...." if len(values) > _MAX_ENUM else ""
            self._lines.append(f"{indent}enum: {shown}{more}")

    def _type(self, schema: Schema) -> str:
        reference = _reference(schema)
        if reference:
            resolved = self._openapi.resolved(schema)
            name = reference_name(reference).rpartition(".")[2]
            is_plain = resolved.get("type") not in (None, "object", "array")
            return str(resolved["type"]) if is_plain and name in ("Time", "MicroTime") else name
        kind = schema.get("type")
        if kind == "array":
            return f"[]{self._type(schema.get('items') or {})}"
        if isinstance(schema.get("additionalProperties"), dict):
            return f"map[string]{self._type(schema['additionalProperties'])}"
        if schema.get("x-kubernetes-int-or-string"):
            return "IntOrString"
        return "Object" if kind in (None, "object") else str(kind)


def _reference(schema: Schema) -> str:
    alternatives = schema.get("allOf") or []
    inner = alternatives[0].get("$ref") if len(alternatives) == 1 else ""
    return str(schema.get("$ref") or inner or "")


def _inner_reference(schema: Schema) -> str:
    """Return the reference of the innermost items of nested lists and maps."""
    while not _reference(schema):
        inner = schema.get("items") or schema.get("additionalProperties")
        if not isinstance(inner, dict):
            return ""
        schema = inner
    return _reference(schema)


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    lines: list[str] = []
    for paragraph in text.rstrip("\n").split("\n"):
        wrapped = textwrap.wrap(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False)
        lines += [indent + line for line in wrapped or [""]]
    return lines
