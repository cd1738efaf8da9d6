# SPDX-License-Identifier: Apache-2.0
"""The properties of `rdd set`: dotted paths into the spec of the App, with text values.

Names, types and allowed values come from the schema of the App's
CustomResourceDefinition alone, so an older client can set properties that only a newer
server has. `namespace` is excluded because it is immutable.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rdd.api.types import Object
from rdd.base.gotext import parse_bool, quote
from rdd.cli.commands.app.values import is_structured, structured
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.wrapping import columns

Schema = Mapping[str, Any]

_HIDDEN = "namespace"
_SHOWN = 200  # characters of an invalid value in its message


class Assignment(NamedTuple):
    path: str
    text: str


def parse_assignments(words: Sequence[str]) -> list[Assignment]:
    """Parse PROPERTY=VALUE arguments; the last value of a repeated property wins.

    Raises CommandError.
    """
    found: dict[str, Assignment] = {}
    for word in words:
        path, equals, text = word.partition("=")
        if not equals:
            raise CommandError(f"invalid argument {quote(word)}: expected PROPERTY=VALUE format")
        if not path:
            raise CommandError(f"invalid argument {quote(word)}: property name must not be empty")
        found.pop(path, None)
        found[path] = Assignment(path, text)
    return list(found.values())


def spec_schema(definition: Object) -> Schema:
    """Return the schema of the spec in a CustomResourceDefinition, without immutable fields."""
    version = next(v for v in definition["spec"]["versions"] if v["storage"])
    root: Schema = version["schema"]["openAPIV3Schema"]
    spec: Schema = root["properties"]["spec"]
    properties = {name: s for name, s in spec["properties"].items() if name != _HIDDEN}
    return {**spec, "properties": properties}


def resolve(assignments: Sequence[Assignment], schema: Schema) -> Object:
    """Convert assignments to a partial spec. Raises CommandError."""
    spec: Object = {}
    for path, text in assignments:
        value = coerce(path, text, find(path, schema))
        node = spec
        *parents, leaf = path.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return spec


def find(path: str, schema: Schema) -> Schema:
    """Return the schema of a property. Raises CommandError that lists the valid properties."""
    node = schema
    walked: list[str] = []
    for segment in path.split("."):
        children = node.get("properties")
        if children is None:
            raise CommandError(
                f"{path}: {quote('.'.join(walked))} is not an object and has no sub-properties"
            )
        if segment not in children:
            valid = ", ".join(sorted(name for name, _ in leaves(node)))
            under = f" under {quote('.'.join(walked))}" if walked else ""
            hint = did_you_mean(path, (name for name, _ in leaves(schema)))
            raise CommandError(
                f"{path}: unknown property {quote(segment)}{under}; valid properties: {valid}"
                + (hint and f"; {hint}")
            )
        walked.append(segment)
        node = children[segment]
    if "properties" in node:
        child = f"{path}.{sorted(node['properties'])[0]}"
        raise CommandError(
            f"{path}: {quote(path)} is an object; set its fields, e.g. {quote(child)}"
        )
    return node


_CERTIFICATES = "certificates.authorities"


def leaves(schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every leaf property with its dotted path."""
    for name, child in schema.get("properties", {}).items():
        if "properties" in child:
            yield from leaves(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def coerce(path: str, text: str, schema: Schema) -> Any:
    """Convert text to the type in the schema. Raises CommandError with the allowed values."""
    try:
        if is_structured(schema):
            return structured(text, schema, is_of_certificates=path == _CERTIFICATES)
        return _coerced(text, schema)
    except ValueError as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise CommandError(f"invalid value {quote(shown)} for {quote(path)}: {error}") from None


def _coerced(text: str, schema: Schema) -> Any:
    if "enum" in schema:
        valid = [value for value in schema["enum"] if isinstance(value, str)]
        if text not in valid:
            raise ValueError(f"valid values: {', '.join(valid)}")
        return text
    if schema.get("x-kubernetes-int-or-string"):
        return text or None
    kind = schema.get("type", "")
    if kind == "boolean":
        return parse_bool(text)
    if kind == "integer":
        return _integer(text)
    if kind == "string":
        return text
    raise ValueError(f"unsupported schema type {quote(kind)}; use `rdd ctl edit app app`")


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or not -(2**63) <= int(text) < 2**63:
        raise ValueError("expected integer")
    return int(text)


def with_required(spec: Object, schema: Schema) -> Object:
    """Return the spec with zero values for missing required fields.

    Only then can an App be created; defaulting and admission complete it.
    """
    filled = dict(spec)
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in filled and name in properties:
            filled[name] = _zero(properties[name])
    for name, value in spec.items():
        if isinstance(value, dict) and "properties" in properties.get(name, {}):
            filled[name] = with_required(value, properties[name])
    return filled


def _zero(schema: Schema) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    if kind == "object":
        return with_required({}, schema)
    return {"boolean": False, "integer": 0, "array": []}.get(kind, "")


def describe(schema: Schema, width: int) -> str:
    """Return the table of all properties, wrapped to a width."""
    rows = [
        (path, _kind(child), _first_sentence(child.get("description", "")) or "-")
        for path, child in sorted(leaves(schema))
    ]
    return "\n".join(["Available properties:", *columns(rows, width)])


def _kind(schema: Schema) -> str:
    if schema.get("enum"):
        return f"({'|'.join(v for v in schema['enum'] if isinstance(v, str))})"
    if schema.get("x-kubernetes-int-or-string"):
        return "(quantity)"
    kind = schema.get("type", "")
    return {"array": "(list)", "object": "(map)"}.get(kind, f"({kind})")


def _first_sentence(text: str) -> str:
    sentence, dot, _ = " ".join(text.split()).partition(". ")
    return sentence + "." if dot else sentence
