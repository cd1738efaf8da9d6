# SPDX-License-Identifier: Apache-2.0
"""Names of images: `[registry/]repository[:tag][@digest]`.

    parse("alpine")                      docker.io / library/alpine : latest
    parse("localhost:5000/a/b:1")        localhost:5000 / a/b : 1

The first component is a registry if it is invalid in a repository of Docker Hub: it
has a dot, a colon or a capital letter, or it is `localhost`.
"""

import re
from dataclasses import dataclass

HUB = "docker.io"
HUB_SERVER = "https://index.docker.io/v1/"
"""The name of Docker Hub in Docker's credentials."""

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_is_path = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*").fullmatch
_is_host = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
    r"|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
).fullmatch
_is_tag = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}").fullmatch
_is_digest = re.compile(
    r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
).fullmatch
_MAX_NAME = 255


class InvalidReference(ValueError):
    """The text is not the name of an image."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """The parsed name of an image."""

    registry: str
    path: str
    """The path in the registry, such as `library/alpine`."""
    familiar: str
    """Registry and path in the short form that the engine shows."""
    tag: str
    digest: str = ""

    @property
    def version(self) -> str:
        """The `tag` parameter of the engine: the digest if present."""
        return self.digest or self.tag

    @property
    def server(self) -> str:
        """The key of the registry in Docker's credentials."""
        return HUB_SERVER if self.registry == HUB else self.registry

    def __str__(self) -> str:
        """Return the complete name, as the engine lists it."""
        return f"{self.familiar}@{self.digest}" if self.digest else f"{self.familiar}:{self.tag}"


def parse(text: str) -> ImageReference:
    """Parse a name. Raises InvalidReference."""
    name, _, digest = text.partition("@")
    if "@" in text and not _is_digest(digest):
        raise InvalidReference(f"invalid image reference {text!r}: bad digest")
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _is_tag(tag):
        raise InvalidReference(f"invalid image reference {text!r}: bad tag")
    familiar = head + slash + last
    registry, _, path = familiar.partition("/")
    if not path or not _is_registry(registry):
        registry, path = HUB, familiar
    elif registry in ("index.docker.io", HUB):
        registry, familiar = HUB, path
    if not _is_path(path) or not _is_host(registry) or len(familiar) > _MAX_NAME:
        raise InvalidReference(f"invalid image reference {text!r}")
    if registry == HUB:
        familiar = familiar.removeprefix("library/")
        if "/" not in path:
            path = f"library/{path}"
    return ImageReference(registry, path, familiar, tag or ("" if digest else "latest"), digest)


def _is_registry(component: str) -> bool:
    return (
        component == "localhost"
        or "." in component
        or ":" in component
        or component != component.lower()
    )
