# SPDX-License-Identifier: Apache-2.0
"""YAML as sigs.k8s.io/yaml reads and writes it.

Reading builds JSON values straight from libyaml's events: PyYAML's own
constructors would make dates and base-60 numbers, which Kubernetes does not
know, and are slower. Scalars are resolved by go-yaml v2's rules (YAML 1.1:
`yes` and `on` are true). Keys become text. Only the first document of a stream
is read, the rest is ignored.

An alias is a copy of what its anchor stands for. Copies are counted before
they are made, so a document that multiplies itself is refused, by go-yaml's
measure, without doing its work.

Writing sorts keys the way go-yaml does (`a2` before `a10`) and lets libyaml
choose the quotes.
"""

import base64
import binascii
import functools
import io
import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from rdd.api.errors import BadRequest
from rdd.base import gotext, govalue

_TAG = "tag:yaml.org,2002:"
_STR, _BINARY = f"{_TAG}str", f"{_TAG}binary"
_RESOLVABLE = {f"{_TAG}{t}" for t in ("str", "bool", "int", "float", "null", "timestamp")}

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_STARTS = frozenset("+-0123456789yYnNtTfFoO~.")
_NUMERIC_STARTS = frozenset("+-0123456789.")

_is_decimal = re.compile(r"[-+]?(?:0|[1-9][0-9]*)").fullmatch
_is_float = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?").fullmatch
_is_dotted_float = re.compile(r"\.[0-9]+(?:[eE][-+]?[0-9]+)?").fullmatch
_based = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[oO]?([0-7]+)|[bB]([01]+))").fullmatch
_is_timestamp = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:[Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:[.,][0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})"
    r"| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:[.,][0-9]+)?)?"
).fullmatch
_is_base60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?").fullmatch


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A document's value and go-yaml's texts about repeated keys: `line 7: key "k" already …`."""

    value: Any
    duplicates: tuple[str, ...]


def read(data: bytes, *, max_depth: int) -> YamlDocument:
    """Return the first document of a YAML stream. Raises BadRequest with go-yaml's message."""
    try:
        reader = _Reader(data, max_depth)
        value = reader.document()
    except yaml.MarkedYAMLError as e:
        raise BadRequest(f"yaml: {_where(e)}{e.problem}") from None
    except yaml.reader.ReaderError as e:
        raise BadRequest(f"yaml: {e.reason}") from None
    return YamlDocument(with_json_numbers(value), tuple(reader.duplicates))


def _where(error: yaml.MarkedYAMLError) -> str:
    """Return the position in go-yaml's way, which counts lines differently for scanner errors."""
    line = error.problem_mark.line if error.problem_mark else 0
    if line:
        line += isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark:
        line = error.context_mark.line
    return f"line {line}: " if line else ""


def with_json_numbers(value: Any) -> Any:
    """Return numbers as they survive the way through JSON: `1.0` is 1, beyond int64 is a float.

    Returns the value itself if there is nothing to change. Raises BadRequest for what JSON
    does not have.
    """
    if type(value) is dict:
        for key, item in value.items():
            kind = type(item)
            if kind is float or kind is int or kind is dict or kind is list:
                value[key] = with_json_numbers(item)
    elif type(value) is list:
        for i, item in enumerate(value):
            kind = type(item)
            if kind is float or kind is int or kind is dict or kind is list:
                value[i] = with_json_numbers(item)
    elif type(value) is float:
        if math.isnan(value) or math.isinf(value):
            raise BadRequest(f"json: unsupported value: {govalue.plain(value)}")
        if value.is_integer() and -(2.0**63) <= value < 2.0**63:
            # By its text: the shortest digits of a float are not all digits of its value. Those
            # of -(2**63) are beyond an int64.
            whole = int(govalue.number(value))
            return whole if whole >= -(2**63) else value
    elif type(value) is int and not -(2**63) <= value < 2**63:
        return float(value)
    return value


_MERGE = object()
_OPEN = object()


class _Reader:
    """Values from events. `line` is that of the value read last, for messages."""

    def __init__(self, data: bytes, max_depth: int) -> None:
        self.next = yaml.CBaseLoader(data).get_event
        self.max_depth = max_depth
        self.anchors: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.duplicates: list[str] = []
        self.decoded = 0
        self.copied = 0
        self.line = 0

    def document(self) -> Any:
        self.next()
        if type(self.next()) is not yaml.DocumentStartEvent:
            return None
        return self.node(self.next(), 0)

    def node(self, event: Any, depth: int) -> Any:
        kind = type(event)
        self.decoded += 1
        if kind is yaml.ScalarEvent:
            value = self.scalar(event)
            if event.anchor:
                self.anchors[event.anchor], self.sizes[event.anchor] = value, 1
            self.line = event.start_mark.line
            return value
        if kind is yaml.AliasEvent:
            self.line = event.start_mark.line
            return self.alias(event.anchor)
        if depth >= self.max_depth:
            raise BadRequest(f"yaml: exceeded max depth of {self.max_depth}")
        before = self.decoded
        if event.anchor:
            self.anchors[event.anchor] = _OPEN
        line = event.start_mark.line
        value = self.mapping(depth) if kind is yaml.MappingStartEvent else self.sequence(depth)
        if event.anchor:
            self.anchors[event.anchor] = value
            self.sizes[event.anchor] = self.decoded - before + 1
        self.line = line
        return value

    def sequence(self, depth: int) -> list[Any]:
        items = []
        while type(event := self.next()) is not yaml.SequenceEndEvent:
            items.append(self.node(event, depth + 1))
        return items

    def mapping(self, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        seen = set()
        while type(event := self.next()) is not yaml.MappingEndEvent:
            is_merge = type(event) is yaml.ScalarEvent and _is_merge(event)
            key = _MERGE if is_merge else self.node(event, depth + 1)
            item = self.node(self.next(), depth + 1)
            if key is _MERGE:
                self.merge(value, item)
                continue
            text = key if type(key) is str else _key_text(key, item)
            identity = (type(key), key)
            if identity in seen:
                shown = govalue.value(key) if key is not None else "<nil>"
                self.duplicates.append(f"line {self.line + 1}: key {shown} already set in map")
            seen.add(identity)
            value[text] = item
        return value

    def merge(self, value: dict[str, Any], item: Any) -> None:
        items = [item] if isinstance(item, dict) else item
        if not isinstance(items, list) or not all(isinstance(i, dict) for i in items):
            raise BadRequest("yaml: map merge requires map or sequence of maps as the value")
        for part in reversed(items):
            for key, content in part.items():
                if key in value:
                    shown = gotext.quote(key)
                    self.duplicates.append(f"line {self.line + 1}: key {shown} already set in map")
                value[key] = content

    def alias(self, anchor: str) -> Any:
        value = self.anchors.get(anchor, self.anchors)
        if value is self.anchors:
            raise BadRequest(f"yaml: unknown anchor '{anchor}' referenced")
        if value is _OPEN:
            raise BadRequest(f"yaml: anchor '{anchor}' value contains itself")
        size = self.sizes[anchor]
        self.decoded += size
        self.copied += size
        if self.copied > 100 and self.decoded > 1000:
            share = self.copied / self.decoded
            if share > _allowed_share(self.decoded):
                raise BadRequest("yaml: document contains excessive aliasing")
        return _copy(value)

    def scalar(self, event: Any) -> Any:
        text: str = event.value
        tag = event.tag
        if tag is None:
            return _resolve(text) if event.implicit[0] else text
        if tag == _BINARY:
            try:
                return base64.b64decode(text.replace("\n", ""), validate=True).decode(
                    "utf-8", "replace"
                )
            except binascii.Error:
                raise BadRequest("yaml: !!binary value contains invalid base64 data") from None
        if tag == _STR or tag not in _RESOLVABLE:
            return text
        return _resolve_as(tag, text)


def _is_merge(event: Any) -> bool:
    if event.value != "<<":
        return False
    return bool(event.implicit[0]) if event.tag is None else event.tag == f"{_TAG}merge"


def _allowed_share(decoded: int) -> float:
    """Return how much of a document may stem from aliases.

    99 % of a small one, 10 % of a huge one.
    """
    low, high = 400_000, 4_000_000
    if decoded <= low:
        return 0.99
    return 0.10 if decoded >= high else 0.99 - 0.89 * (decoded - low) / (high - low)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list) else value


def _resolve(text: str) -> Any:
    """Return the value of a plain scalar."""
    if text and text[0] not in _STARTS:
        # "null" starts with a letter that is in the table, so only text is left
        return text
    if text in _WORDS:
        return _WORDS[text]
    return _number(text) if text[0] in _NUMERIC_STARTS else text


def _number(text: str) -> Any:
    """Return the number a text stands for; the text itself if it is none, or a date."""
    if _is_decimal(text) and len(text) <= 20:
        return int(text)
    if text[0] == ".":
        return float(text) if _is_dotted_float(text) and _fits(text) else text
    if _is_timestamp(text):
        return text
    plain = text.replace("_", "")
    if _is_decimal(plain) and len(plain) <= 20:
        return int(plain)
    if len(plain) <= 70 and (found := _based(plain)):
        sign, hexadecimal, octal, binary = found.groups()
        base = 16 if hexadecimal else 8 if octal else 2
        value = int(f"{sign}{hexadecimal or octal or binary}", base)
        if -(2**63) <= value < 2**64:
            return value
    return float(plain) if _is_float(plain) and _fits(plain) else text


def _fits(text: str) -> bool:
    return not math.isinf(float(text))


def _resolve_as(tag: str, text: str) -> Any:
    """Return the value of a scalar with an explicit tag."""
    value = _resolve(text)
    if tag == f"{_TAG}float" and type(value) is int:
        return float(value)
    actual = "timestamp" if type(value) is str and _is_timestamp(text) else _kind(value)
    wanted = tag.removeprefix(_TAG)
    if actual != wanted:
        raise BadRequest(f"yaml: cannot decode !!{actual} `{text}` as a !!{wanted}")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return type(value).__name__


def _key_text(key: Any, item: Any) -> str:
    """Return a key that is not text, as text."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and -(2**63) <= key < 2**63:
        return str(key)
    if isinstance(key, float):
        if math.isnan(key) or math.isinf(key):
            return ".nan" if math.isnan(key) else ".inf" if key > 0 else "-.inf"
        return govalue.plain(key)
    if isinstance(key, dict | list):
        raise BadRequest(f"yaml: invalid map key: {govalue.json_text(key)}")
    kind, shown = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", hex(key))
    raise BadRequest(
        f"unsupported map key of type: {kind}, key: {shown}, value: {govalue.value(item)}"
    )


def encode_yaml(value: Any) -> bytes:
    """Return a JSON value as a YAML document in block style, keys sorted.

    About 0.3 ms per kB: call it off the event loop for large lists.
    """
    stream = io.BytesIO()
    emitter = yaml.CBaseDumper(stream, allow_unicode=True, width=80)
    emitter.emit(yaml.StreamStartEvent(encoding="utf-8"))
    emitter.emit(yaml.DocumentStartEvent(explicit=False))
    _emit(emitter, value)
    emitter.emit(yaml.DocumentEndEvent(explicit=False))
    emitter.emit(yaml.StreamEndEvent())
    text = stream.getvalue()
    # libyaml ends the document explicitly after some block texts, go-yaml does not
    return text[:-4] if text.endswith(b"\n...\n") and isinstance(value, dict | list) else text


def _emit(emitter: Any, value: Any) -> None:
    if isinstance(value, dict):
        emitter.emit(yaml.MappingStartEvent(None, None, True, flow_style=False))
        for key in _sorted_keys(value):
            _emit(emitter, key)
            _emit(emitter, value[key])
        emitter.emit(yaml.MappingEndEvent())
    elif isinstance(value, list | tuple):
        emitter.emit(yaml.SequenceStartEvent(None, None, True, flow_style=False))
        for item in value:
            _emit(emitter, item)
        emitter.emit(yaml.SequenceEndEvent())
    elif isinstance(value, str):
        emitter.emit(yaml.ScalarEvent(None, None, (True, True), value, style=_style(value)))
    else:
        text = govalue.value(value)
        emitter.emit(yaml.ScalarEvent(None, None, (True, True), text))


def _style(text: str) -> str | None:
    if "\n" in text:
        return "|"
    would_change = type(_resolve(text)) is not str or _is_timestamp(text) or text == "<<"
    return '"' if would_change or _is_base60(text) else None


def _sorted_keys(value: dict[str, Any]) -> list[str]:
    if all(k.isascii() and k.isalpha() for k in value):
        return sorted(value)
    return sorted(value, key=functools.cmp_to_key(_compare_keys))


def _compare_keys(a: str, b: str) -> int:
    """go-yaml's order: letters after other characters, runs of digits by their number."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x == y:
            continue
        if x.isalpha() or y.isalpha():
            if x.isalpha() and y.isalpha():
                return -1 if x < y else 1
            return -1 if y.isalpha() else 1
        x_digits, y_digits = _digits(a, i), _digits(b, i)
        lead = "1" if "0" in (x, y) and _follows_number(a, i) else ""
        x_number, y_number = int(lead + x_digits or "0"), int(lead + y_digits or "0")
        if x_number != y_number:
            return -1 if x_number < y_number else 1
        if len(x_digits) != len(y_digits):
            return -1 if len(x_digits) < len(y_digits) else 1
        return -1 if x < y else 1
    return (len(a) > len(b)) - (len(a) < len(b))


def _digits(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end].isdecimal() and end - start < 4000:
        end += 1
    return text[start:end]


def _follows_number(text: str, position: int) -> bool:
    """Return whether the digits before a position are a number other than zero."""
    for c in reversed(text[:position]):
        if not c.isdecimal():
            return False
        if c != "0":
            return True
    return False
