# SPDX-License-Identifier: Apache-2.0
"""Patterns of image names: `registry.example.com/team/*`, `docker.io/library/alpine:3.*`.

Names are compared in their complete form, so `alpine` is `docker.io/library/alpine:latest`. The
registry of a pattern is literal; in the path and the tag `*` stands for any text. A pattern
without a tag allows every tag and digest, one with a digest only that content.
"""

import re
from dataclasses import dataclass

from rdd.engine.references import HUB, ImageReference, InvalidReference, parse

_is_registry = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9A-Fa-f:]+\](:[0-9]+)?").fullmatch

_may_be_id = re.compile(r"(sha256:)?[0-9a-f]+").fullmatch


@dataclass(frozen=True, slots=True)
class ImagePattern:
    """The images that one pattern allows."""

    text: str
    registry: str
    path: re.Pattern[str]
    tag: re.Pattern[str] | None
    digest: str

    @classmethod
    def of(cls, text: str) -> "ImagePattern":
        """Return the pattern of a text. Raises ValueError with what is allowed."""
        name, _, digest = text.partition("@")
        registry, slash, rest = name.partition("/")
        if not slash or not rest or not _is_registry(registry):
            raise ValueError("must start with a registry, such as docker.io/library/*")
        head, _, last = rest.rpartition("/")
        last, colon, tag = last.partition(":")
        path = f"{head}/{last}" if head else last
        if digest and "*" in digest:
            raise ValueError('must not have "*" in the digest')
        return cls(
            text,
            HUB if registry == "index.docker.io" else registry,
            _wildcard(path),
            _wildcard(tag) if colon else None,
            digest,
        )

    def matches(self, image: ImageReference) -> bool:
        return (
            image.registry == self.registry
            and self.path.fullmatch(image.path) is not None
            # A digest with a tag is pulled by the digest: the tag proves nothing.
            and (
                self.tag is None or (not image.digest and self.tag.fullmatch(image.tag) is not None)
            )
            and self.digest in ("", image.digest)
        )


def reference(text: str) -> ImageReference | None:
    """Return the parsed name of an image; None for anything else.

    An engine takes `cafe` for an ID, too, if an image has one that starts so: it is none here.
    """
    if _may_be_id(text):
        return None
    try:
        return parse(text)
    except InvalidReference:
        return None


def _wildcard(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))))
