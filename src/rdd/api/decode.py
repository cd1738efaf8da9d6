# SPDX-License-Identifier: Apache-2.0
"""From the bytes of a request to a JSON value.

orjson decides; Go's rules are applied where the two differ. What orjson
refuses is scanned again the way encoding/json does it (`rdd.base.gojson`), which
either finds Go's error message or that Go accepts the text
(invalid UTF-8 and lone surrogates become U+FFFD). The only errors are
BadRequests with the decoder's own text: the endpoint puts its context around it.

Duplicate keys are needed for warnings on nearly every write, so their absence
is proven by counting, not by parsing again: a key ends in `":`, and decoding
loses exactly the keys that are repeated.
"""

import json
import re
from typing import Any

import orjson

from rdd.api import yamlcodec
from rdd.api.errors import BadRequest
from rdd.api.yamlcodec import YamlDocument as YamlDocument
from rdd.api.yamlcodec import encode_yaml as encode_yaml
from rdd.base import goformat, gojson

MAX_DEPTH = 240
"""Nested containers. Go's limit is 10,000, but recursive code here must not meet Python's.

orjson writes 254 levels. The managedFields of an object have four more levels than its members,
and Tables, AdmissionReviews and audit events wrap it in up to three.
"""

_MAX_STRICT_ERRORS = 100  # as in sigs.k8s.io/json

# Any digit becomes "0", which makes runs of digits findable at memchr speed.
_DIGITS = bytes(0x30 if 0x31 <= i <= 0x39 else i for i in range(256))
_BIG = b"0" * 19  # 2**63 has 19 digits
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def decode_json(data: bytes) -> Any:
    """Return the value of a JSON text, with Go's idea of numbers: int64, otherwise float64.

    Raises BadRequest with the message of encoding/json.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _decode_as_go(data)
    if len(data) >= len(_BIG):
        # One pass answers both: the brackets that are missing, and runs of digits.
        marked = data.translate(_DIGITS, b"{[")
        if len(data) - len(marked) > MAX_DEPTH:
            _check_depth(value)
        # orjson reads integers up to 2**64; beyond 2**63 they are floats in Go.
        if _BIG in marked:
            value = _narrowed(value)
    return value


def _decode_as_go(data: bytes) -> Any:
    error = gojson.syntax_error(data, max_depth=MAX_DEPTH)
    if error:
        raise BadRequest(error)
    value = json.loads(_go_text(data), parse_int=_go_int, parse_float=_go_float)
    return _without_surrogates(value)


def _go_text(data: bytes) -> str:
    """Return the text with each byte that is not UTF-8 as U+FFFD, as Go ranges over strings."""
    return _LONE_SURROGATE.sub("\ufffd", data.decode("utf-8", "surrogateescape"))


def _go_int(literal: str) -> int | float:
    return int(literal) if len(literal) <= 20 else _go_float(literal)


def _go_float(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise BadRequest(f"json: cannot unmarshal number {literal} into Go value of type float64")
    return value


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, RawNumber):
        return value
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, Pairs):
        return Pairs((_without_surrogates(k), _without_surrogates(v)) for k, v in value)
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(v) for v in value]
    return value


def _narrowed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _narrowed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_narrowed(v) for v in value]
    if type(value) is int and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            children = node.values() if type(node) is dict else node
            below += [c for c in children if type(c) is dict or type(c) is list]
        if not below:
            return
        level = below
    opening = "{" if type(level[0]) is dict else "["
    raise BadRequest(f"invalid character '{opening}' exceeded max depth")


def summarize(data: bytes) -> str:
    """Return the start of a body for an error message: JSON objects as text, the rest in hex."""
    if not data:
        return "<empty>"
    more = " ..." if len(data) > 30 else ""
    start = data[:30]
    return (start.decode("utf-8", "replace") if data[:1] == b"{" else start.hex()) + more


def written_value(data: bytes) -> Any:
    """Return the value of a valid JSON text with numbers as RawNumber."""
    return json.loads(_go_text(data), parse_int=RawNumber, parse_float=RawNumber)


def find_duplicate_keys(data: bytes, value: Any) -> list[str]:
    """Return paths of JSON keys that occur again in their object: `data.k`, `spec.l[0].x`.

    `value` MUST be what `decode_json` made of `data`. In the order of the text, each path
    once, at most 100. About 2 µs for 2 kB without duplicates.
    """
    if not _has_space_before_colon(data):
        seen = data.count(b'":')
        # Without \u escapes, texts contribute the same number of `":` on both sides.
        has_escapes = b"\\" in data and b"\\u" in data
        if not has_escapes and seen == orjson.dumps(value).count(b'":'):
            return []
        if seen == _count_keys(value):
            return []
    return duplicate_paths(parse_document(data))[:_MAX_STRICT_ERRORS]


def duplicate_paths(document: Any, path: str = "") -> list[str]:
    """Return the paths of keys of a document that occur again in their object, each once."""
    found: dict[str, None] = {}
    _collect_duplicates(document, path, found)
    return list(found)


def _has_space_before_colon(data: bytes) -> bool:
    # searching for one byte is 20 times faster than for two
    return (
        (b" " in data and b" :" in data)
        or (b"\n" in data and b"\n:" in data)
        or (b"\t" in data and b"\t:" in data)
        or (b"\r" in data and b"\r:" in data)
    )


class Pairs(list[tuple[str, Any]]):
    """The members of an object in the order of the text, repeated ones included."""


class RawNumber(str):
    """A number as it is written."""

    __slots__ = ()

    def is_integer(self, bits: int) -> bool:
        """Return whether Go reads it as an integer of a width."""
        if not self.lstrip("-").isdigit() or len(self) > 20:
            return False
        return -(1 << bits - 1) <= int(self) < 1 << bits - 1

    def value(self) -> int | float:
        """Return its value: int64 if possible, otherwise float64."""
        return int(self) if self.is_integer(64) else float(self)


def node_kind(node: Any) -> str:
    """Return the name that encoding/json has for the type of a value of a document."""
    if isinstance(node, RawNumber):
        return "number"
    return "object" if isinstance(node, Pairs) else goformat.json_kind(node)


def parse_document(data: bytes) -> Any:
    """Return the value of a valid JSON text with objects as Pairs and numbers as RawNumber."""
    document = json.loads(
        _go_text(data), object_pairs_hook=Pairs, parse_int=RawNumber, parse_float=RawNumber
    )
    return _without_surrogates(document) if b"\\u" in data else document


def _count_keys(value: Any) -> int:
    keys, stack = 0, [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            keys += len(node)
            stack += node.values()
        elif type(node) is list:
            stack += node
    return keys


def _collect_duplicates(node: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(node, Pairs):
        seen = set()
        for key, child in node:
            at = f"{path}.{key}" if path else key
            if key in seen:
                found[at] = None
            seen.add(key)
            _collect_duplicates(child, at, found)
    elif isinstance(node, list):
        for i, child in enumerate(node):
            _collect_duplicates(child, f"{path}[{i}]", found)


def decode_yaml(data: bytes) -> YamlDocument:
    """Return the JSON value of a YAML document, with the warnings about duplicate keys.

    Bodies sent as YAML usually are JSON, which is a subset and 500 times faster to read;
    they are taken as such if they start with a brace. Real YAML takes about 0.2 ms per kB:
    call it off the event loop for more than a few kB. Raises BadRequest.
    """
    if data[:1] == b"{":
        try:
            value = decode_json(data)
        except BadRequest:
            pass  # a YAML flow mapping starts with a brace, too
        else:
            if not find_duplicate_keys(data, value):
                if _may_have_floats(data):
                    value = yamlcodec.with_json_numbers(value)
                return YamlDocument(value, ())
    return yamlcodec.read(data, max_depth=MAX_DEPTH)


def _may_have_floats(data: bytes) -> bool:
    marked = data.translate(_DIGITS)
    return b"0.0" in marked or b"0e" in marked or b"0E" in marked
