# SPDX-License-Identifier: Apache-2.0
"""Encoding of objects.

An object is encoded once, when it is written, and its bytes then serve every
GET, LIST and watch. Two members are not part of the stored bytes, because they
differ between uses of the same object:

- `kind` and `apiVersion` come first in every object and are omitted. A version
  prepends its own head; the items of a built-in list, which have neither, are
  the unchanged bytes.
- `resourceVersion` is the revision that the store assigns to the write. It is
  inserted after the uid when the write has been committed.

So a stored value looks like `"metadata":{"name":…,"uid":…},…}`: everything
after the head, up to and including the closing brace.
"""

from typing import Any

import orjson

from rdd.api import errors
from rdd.api.metadata import order_metadata

MAX_OBJECT_BYTES = 1_572_864  # 1.5 MiB, the default of etcd and so of Kubernetes

_UID = b'"uid":"'
# A uid always has 36 characters, 37 with its closing quote. No member before uid
# can contain `"uid":"` unescaped, so the first match is the uid.
_UID_LENGTH = len(_UID) + 37
_VERSION = b',"resourceVersion":"'
_START = b'"metadata":{"name":'


def encode(obj: dict[str, Any], *, tag: str = "") -> bytes:
    """Return the stored form of an object: without kind, apiVersion and resourceVersion.

    With a tag, the apiVersion is the last member (see crd/conversion.py).
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


def too_large() -> errors.RequestEntityTooLarge:
    """Return the error of an object whose stored form would exceed MAX_OBJECT_BYTES."""
    return errors.RequestEntityTooLarge(f"Request entity too large: limit is {MAX_OBJECT_BYTES}")


def with_revision(stored: bytes, revision: int) -> bytes:
    """Return the stored form with its resourceVersion inserted."""
    at = stored.index(_UID) + _UID_LENGTH
    return b'%b,"resourceVersion":"%d"%b' % (stored[:at], revision, stored[at:])


def without_revision(body: bytes) -> bytes:
    """Reverse with_revision."""
    at = body.index(_UID) + _UID_LENGTH
    end = body.index(b'"', at + len(_VERSION)) + 1
    return body[:at] + body[end:]


def decode(body: bytes) -> dict[str, Any]:
    """Return the object of a body without kind and apiVersion, as a new dict."""
    obj: dict[str, Any] = orjson.loads(b"{" + body)
    return obj


def is_readable(stored: bytes) -> bool:
    """Return whether bytes are the stored form of an object."""
    try:
        return stored.index(_UID) > 0 and isinstance(decode(stored), dict)
    except ValueError:
        return False


def is_object(name: str, stored: bytes) -> bool:
    """Return whether bytes begin and end like the stored form of an object of this name.

    Other programs can write to a distributed store. To decode every value would cost more than
    all else that is done with it.
    """
    return (
        stored.startswith(_START + orjson.dumps(name)) and stored.endswith(b"}") and _UID in stored
    )


_TAG = b',"apiVersion":"'


def tag_of(body: bytes) -> str:
    """Return the apiVersion at the end of a body, empty if it has none."""
    at = body.rfind(_TAG)
    if at < 0 or not body.endswith(b'"}'):
        return ""
    text = body[at + len(_TAG) : -2]
    # A nested object may end the same way; then more than one brace closes it.
    return text.decode() if b'"' not in text else ""


def is_same(a: bytes, b: bytes) -> bool:
    """Return whether two stored forms are the same object; the order of members is ignored."""
    return a == b or (len(a) == len(b) and decode(a) == decode(b))


def head(kind: str, api_version: str) -> bytes:
    """Return the bytes that a version prepends to a body."""
    return b'{"kind":%b,"apiVersion":%b,' % (orjson.dumps(kind), orjson.dumps(api_version))


def dumps(value: Any) -> bytes:
    """Return a value as JSON with the final newline of Kubernetes responses."""
    return orjson.dumps(value) + b"\n"
