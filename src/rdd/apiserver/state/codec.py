# SPDX-License-Identifier: Apache-2.0
"""Objects as bytes.

An object is encoded once, when it is written, and its bytes then serve every
GET, LIST and watch. Two things are not part of the stored bytes, because they
differ between uses of the same object:

- `kind` and `apiVersion` come first in every object and are left off. A
  version puts its own head in front, and the items of a built-in list, which
  have neither, are the bytes as they are.
- `resourceVersion` is the revision the store gives to the write. It is spliced
  in behind the uid when the write has been committed.

So a stored value looks like `"metadata":{"name":…,"uid":…},…}`: what follows
the head, up to and including the closing brace.
"""

from typing import Any

import orjson

from rdd.api.metadata import order_metadata

_UID = b'"uid":"'
# The value of a uid is always 36 characters; its closing quote makes 37. No
# member before uid can contain `"uid":"` unescaped, so the first match is it.
_UID_LENGTH = len(_UID) + 37
_VERSION = b',"resourceVersion":"'


def encode(obj: dict[str, Any], *, tag: str = "") -> bytes:
    """The stored form of an object: without kind, apiVersion and resourceVersion.

    With a tag, the apiVersion stands at the end after all (see conversion.py).
    """
    body = {"metadata": None, **obj}
    body.pop("kind", None)
    body.pop("apiVersion", None)
    if tag:
        body["apiVersion"] = tag
    metadata = order_metadata(obj["metadata"])
    metadata.pop("resourceVersion", None)
    body["metadata"] = metadata
    return orjson.dumps(body)[1:]


def with_revision(stored: bytes, revision: int) -> bytes:
    """The stored form with its resourceVersion spliced in."""
    at = stored.index(_UID) + _UID_LENGTH
    return b'%b,"resourceVersion":"%d"%b' % (stored[:at], revision, stored[at:])


def without_revision(body: bytes) -> bytes:
    """The inverse of with_revision."""
    at = body.index(_UID) + _UID_LENGTH
    end = body.index(b'"', at + len(_VERSION)) + 1
    return body[:at] + body[end:]


def decode(body: bytes) -> dict[str, Any]:
    """The object of a body, without kind and apiVersion; a fresh dict."""
    obj: dict[str, Any] = orjson.loads(b"{" + body)
    return obj


_TAG = b',"apiVersion":"'


def tag_of(body: bytes) -> str:
    """The apiVersion at the end of a body, empty if it was stored without."""
    at = body.rfind(_TAG)
    if at < 0 or not body.endswith(b'"}'):
        return ""
    text = body[at + len(_TAG) : -2]
    # A nested object may end in the same way; then more than one brace closes it.
    return text.decode() if b'"' not in text else ""


def is_same(a: bytes, b: bytes) -> bool:
    """Whether two stored forms are the same object; the order of members does not matter."""
    return a == b or (len(a) == len(b) and decode(a) == decode(b))


def head(kind: str, api_version: str) -> bytes:
    """What a version puts in front of a body."""
    return b'{"kind":%b,"apiVersion":%b,' % (orjson.dumps(kind), orjson.dumps(api_version))


def dumps(value: Any) -> bytes:
    """Any value as JSON, with the newline Kubernetes ends its answers with."""
    return orjson.dumps(value) + b"\n"
