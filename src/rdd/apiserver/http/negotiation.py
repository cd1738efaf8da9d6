# SPDX-License-Identifier: Apache-2.0
"""Content negotiation: JSON or YAML; the whole object, a Table or metadata only."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rdd.api import errors, names
from rdd.api.mediatypes import JSON, YAML
from rdd.apiserver.http.request import Request

_AVAILABLE = (
    "application/json, application/yaml, application/vnd.kubernetes.protobuf, "
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
)
_ONLY = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_TRANSFORMS = {
    ("Table", names.META_GROUP, "v1"),
    ("Table", names.META_GROUP, "v1beta1"),
    ("PartialObjectMetadata", names.META_GROUP, "v1"),
    ("PartialObjectMetadata", names.META_GROUP, "v1beta1"),
    ("PartialObjectMetadataList", names.META_GROUP, "v1"),
    ("PartialObjectMetadataList", names.META_GROUP, "v1beta1"),
}


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A representation: a media type and, unless empty, the kind to transform into."""

    media: str = JSON
    transform: str = ""
    """Table, PartialObjectMetadata or PartialObjectMetadataList."""
    version: str = "v1"
    """The version of meta.k8s.io."""

    @property
    def is_plain(self) -> bool:
        """Whether the format is the object itself, as JSON."""
        return self.media == JSON and not self.transform


PLAIN = ResponseFormat()


def negotiate(request: Request) -> ResponseFormat:
    """Return the best representation for the Accept header; raise NotAcceptable."""
    accept = request.headers.get("Accept", "")
    if not accept or accept == JSON or accept == "*/*":
        return PLAIN
    found = _negotiate(accept)
    if isinstance(found, str):
        details: dict[str, Any] | None = {} if found.startswith("406") else None
        raise errors.NotAcceptable(found, details=details)
    return found


@lru_cache(maxsize=256)
def _negotiate(accept: str) -> ResponseFormat | str:
    """Return the format, or the message of NotAcceptable."""
    is_known_media = False
    for clause in sorted(_clauses(accept), key=lambda c: -c[0]):
        _, media, params = clause
        if media in ("*/*", "application/*", JSON):
            chosen = JSON
        elif media == YAML:
            chosen = YAML
        else:
            continue
        if "as" not in params:
            if params.get("stream", "watch") != "watch":
                continue
            return ResponseFormat(chosen)
        is_known_media = True
        target = (params["as"], params.get("g", ""), params.get("v", ""))
        if target in _TRANSFORMS:
            return ResponseFormat(chosen, target[0], target[2])
    return (
        f"only the following media types are accepted: {_ONLY}"
        if is_known_media
        else f"406: Not Acceptable\n\nAvailable representations: {_AVAILABLE}"
    )


def _clauses(accept: str) -> list[tuple[float, str, dict[str, str]]]:
    found = []
    for part in accept.split(","):
        media, *params = part.split(";")
        values = {}
        for p in params:
            name, _, value = p.partition("=")
            values[name.strip().lower()] = value.strip().strip('"')
        try:
            quality = float(values.pop("q", "1"))
        except ValueError:
            quality = 0.0
        found.append((quality, media.strip().lower(), values))
    return found


def is_pretty(request: Request) -> bool:
    """Return whether to indent the response: on request, and for browsers, curl and wget."""
    values = request.query.get("pretty")
    if values:
        return values[0].lower() not in ("0", "false", "")
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))
