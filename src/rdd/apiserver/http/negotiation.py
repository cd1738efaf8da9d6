# SPDX-License-Identifier: Apache-2.0
"""Content negotiation: JSON, YAML or protobuf; the whole object, a Table or metadata only."""

from dataclasses import dataclass
from functools import lru_cache

from rdd.api import errors, names
from rdd.api.mediatypes import JSON, PROTOBUF, YAML
from rdd.apiserver.http.request import Request

_ONLY = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
_PRODUCED = {"*/*", *_ONLY.split(", ")}
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


def negotiate(request: Request, *, has_protobuf: bool = True) -> ResponseFormat:
    """Return the best representation for the Accept header; raise NotAcceptable.

    Objects without protobuf form (custom resources) have it for their metadata all the same.
    """
    accept = request.headers.get("Accept", "")
    if not accept or accept == JSON or accept == "*/*":
        return PLAIN
    found = _negotiate(accept, has_protobuf=has_protobuf)
    if found is None:
        raise not_acceptable()
    return found


def not_acceptable() -> errors.NotAcceptable:
    """Return the error for media types that cannot be served."""
    return errors.NotAcceptable(f"only the following media types are accepted: {_ONLY}")


def check_route(request: Request, *, has_streams: bool) -> None:
    """Raise NotAcceptable if the route of a built-in resource produces no accepted media type.

    The router of Kubernetes compares whole media types and their case, so that it refuses
    `application/*`, which the negotiation accepts. Custom resources have no routes.
    """
    accept = request.headers.get("Accept", "")
    if not accept or accept == JSON or accept == "*/*":
        return
    if not any(part.partition(";")[0].strip(" ") in _PRODUCED for part in accept.split(",")):
        available = f"{_ONLY}, {_STREAMS}" if has_streams else _ONLY
        raise errors.NotAcceptable(
            f"406: Not Acceptable\n\nAvailable representations: {available}", details={}
        )


def check_published(request: Request, media: str) -> None:
    """Raise MethodNotAllowed or NotAcceptable as the route of a published document does."""
    if request.method != "GET":
        raise errors.MethodNotAllowed()
    accept = request.headers.get("Accept", "") or "*/*"
    if not any(p.partition(";")[0].strip() in ("*/*", media) for p in accept.split(",")):
        text = f"406: Not Acceptable\n\nAvailable representations: {media}"
        raise errors.NotAcceptable(text, details={})


def status_media(request: Request) -> str:
    """Return the media type of a Status, which has no other representations."""
    accept = request.headers.get("Accept", "")
    if not accept or accept == JSON or accept == "*/*":
        return JSON
    return _status_media(accept)


@lru_cache(maxsize=256)
def _status_media(accept: str) -> str:
    found = _negotiate(accept, can_transform=False)
    return JSON if found is None else found.media


@lru_cache(maxsize=256)
def _negotiate(
    accept: str, *, can_transform: bool = True, has_protobuf: bool = True
) -> ResponseFormat | None:
    """Return the format of the best clause that can be served, None if there is none."""
    for clause in sorted(_clauses(accept), key=lambda c: -c[0]):
        _, media, params = clause
        if media in ("*/*", "application/*", JSON):
            chosen = JSON
        elif media in (YAML, PROTOBUF):
            chosen = media
        else:
            continue
        if params.get("stream", "watch") not in ("watch", ""):
            continue
        if "as" not in params and "g" not in params and "v" not in params:
            if chosen == PROTOBUF and not has_protobuf:
                continue
            return ResponseFormat(chosen)
        target = (params.get("as", ""), params.get("g", ""), params.get("v", ""))
        if target[0] == "Table" and chosen == PROTOBUF:
            continue
        if can_transform and target in _TRANSFORMS:
            return ResponseFormat(chosen, target[0], target[2])
    return None


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
        found.append((quality, media.strip(), values))
    return found


def is_pretty(request: Request) -> bool:
    """Return whether to indent the response: on request, and for browsers, curl and wget."""
    values = request.query.get("pretty")
    if values:
        return values[0].lower() not in ("0", "false", "")
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))
