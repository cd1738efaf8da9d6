# SPDX-License-Identifier: Apache-2.0
"""Values of properties that are lists, maps or objects, from text or files.

    proxy.noProxy=a.example,b.example           a list of texts
    certificates.authorities=@ca.pem,@two.pem   the certificates of files
    registries.mirrors=@mirrors.yaml            JSON or YAML of a file, @- for stdin
    registries.mirrors=[{"registry": …}]        JSON or YAML

Everything is checked against the schema before a request: the server would drop unknown
members of an object without a word.
"""

import re
import sys
from collections.abc import Mapping
from typing import Any

from rdd.base.gotext import quote

Schema = Mapping[str, Any]

_MAX_BYTES = 1024 * 1024  # more than the server accepts in one object
_MAX_DEPTH = 100
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "integer": int, "array": list, "object": dict,
}  # fmt: skip


def is_structured(schema: Schema) -> bool:
    """Return whether a property is a list, a map or an object without declared members."""
    return schema.get("type") in ("array", "object")


def structured(text: str, schema: Schema, *, is_of_certificates: bool = False) -> Any:
    """Convert text to a list or map. Raises ValueError with the reason.

    With `is_of_certificates` a file without a certificate is an error.
    """
    is_list = schema["type"] == "array"
    if not text.strip():
        return [] if is_list else {}
    is_of_texts = is_list and (schema.get("items") or {}).get("type") == "string"
    if is_of_texts and not text.lstrip().startswith("["):
        return [
            item for part in text.split(",") for item in _texts(part.strip(), is_of_certificates)
        ]
    if text.startswith("@"):
        text = read_file(text[1:])
    elif not is_list and "=" in text and not text.lstrip().startswith("{"):
        pairs = (part.partition("=") for part in text.split(",") if part.strip())
        return {key.strip(): value.strip() for key, _, value in pairs}
    value = _parsed(text, "list" if is_list else "map")
    check(value, schema, "")
    return value


def _texts(part: str, is_of_certificates: bool) -> list[str]:
    """Return the texts of one part of a list: itself, or those of a file."""
    if not part.startswith("@"):
        return [part] if part else []
    content = read_file(part[1:])
    if certificates := _CERTIFICATE.findall(content):
        return [f"{pem}\n" for pem in certificates]
    if is_of_certificates:
        raise ValueError(f"the file {quote(part[1:])} contains no PEM certificate")
    if content.lstrip().startswith(("[", "- ")):
        value = _parsed(content, "list")
        check(value, {"type": "array", "items": {"type": "string"}}, "")
        return list(value)
    return [line.strip() for line in content.splitlines() if line.strip()]


def read_file(name: str) -> str:
    """Return the text of a file, `-` for stdin. Raises ValueError."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:  # noqa: PTH123 - "" is an error, not the directory
                data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"cannot read the file {quote(name)}: {reason}") from None
    if len(data) > _MAX_BYTES:
        raise ValueError(f"the file {quote(name)} is larger than 1 MiB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the file {quote(name)} is not UTF-8 text") from None


def _parsed(text: str, kind: str) -> Any:
    from rdd.api.errors import ApiError
    from rdd.api.yamlcodec import read

    try:
        found = read(text.encode(), max_depth=_MAX_DEPTH)
    except ApiError as error:
        raise ValueError(f"expected a {kind} as JSON or YAML: {error.message[:200]}") from None
    if found.duplicates:
        raise ValueError(f"expected a {kind} without repeated keys: {found.duplicates[0]}")
    return found.value


def check(value: Any, schema: Schema, path: str) -> None:
    """Raise ValueError unless a value has the types and members of its schema."""
    kind = schema.get("type", "")
    wanted = _TYPES.get(kind, object)
    is_wrong = not isinstance(value, wanted) or (kind == "integer" and isinstance(value, bool))
    if is_wrong:
        where = f"{path}: " if path else ""
        raise ValueError(f"{where}expected {_article(kind)}{_members_of(schema)}")
    if isinstance(value, list):
        for at, item in enumerate(value):
            check(item, schema.get("items") or {}, f"{path}[{at}]")
    elif isinstance(value, dict):
        _check_members(value, schema, path)


def _check_members(value: dict[str, Any], schema: Schema, path: str) -> None:
    from rdd.cli.framework.suggestions import did_you_mean

    members = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name, inner in value.items():
        below = f"{path}.{name}" if path else str(name)
        if name in members:
            check(inner, members[name], below)
        elif isinstance(others, dict):
            check(inner, others, below)
        elif members:
            hint = (
                did_you_mean(str(name), members) or f"valid members: {', '.join(sorted(members))}"
            )
            raise ValueError(f"{below}: unknown member {quote(str(name))}; {hint}")
    for name in schema.get("required") or ():
        if name not in value:
            raise ValueError(f"{path or 'value'}: the member {quote(name)} is missing")


def _members_of(schema: Schema) -> str:
    """Return what a list or map consists of, if its schema has members."""
    items = schema.get("items") or {}
    members = ", ".join(sorted((items or schema).get("properties") or ()))
    if not members:
        return ""
    return f"{' of maps' if items else ''} with the members {members}, as JSON or YAML"


def _article(kind: str) -> str:
    names = {"array": "a list", "object": "a map", "integer": "an integer", "boolean": "a boolean"}
    return names.get(kind, f"a {kind}")
