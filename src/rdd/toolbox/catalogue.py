# SPDX-License-Identifier: Apache-2.0
"""The catalogue: which tools exist, in which versions, and how their files are verified.

It is data (`catalogue.json`), part of a release. A tool has templates of URLs, in which
`{version}` and the variables of a platform are replaced, so any version of the publisher's
scheme can be installed, not only the listed ones. A file is verified, in this order, by

- the digest that the catalogue has for it (`digests`, filled by `make catalogue`),
- the publisher's checksum file (`checksums`), read when it is fetched.

A file with neither is unverified: it is not fetched unless the user provides a digest. Where a
publisher signs, the signature of the file or of the checksum file is verified, too, with the key
that the catalogue has, else with the one that is at the publisher's `publicKey` URL when it is
first needed. Digests, sizes and keys are never written by hand: they are those of fetched bytes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from string import Formatter
from typing import Any, Final, Literal, cast
from urllib.parse import quote, unquote, urlsplit

from rdd.fetch.digests import Digest
from rdd.fetch.publisher_signatures import PublisherSignature
from rdd.host.errors import HostError

FORMAT: Final = 1
_FILE = "catalogue.json"
_ROLES = ("cli-plugin", "command", "engine", "kubernetes")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}

Role = Literal["cli-plugin", "command", "engine", "kubernetes"]


class InvalidCatalogue(HostError):
    """The data of a catalogue is not valid."""


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """One file of a tool, for one version and platform."""

    url: str
    checksum_url: str = ""
    """The publisher's file of checksums; empty if there is none."""
    signature_url: str = ""
    """A detached OpenPGP signature of the file; empty if there is none."""
    checksum_signature_url: str = ""
    """A detached OpenPGP signature of the checksum file; empty if there is none."""
    key_url: str = ""
    """Where the publisher offers the public key of its signatures."""
    key: str = ""
    """That key; empty if it was not fetched for this catalogue."""
    digest: str = ""
    """The digest of the content; empty if it was not fetched for this catalogue."""
    size_bytes: int = 0
    """The size of the content; 0 if it is unknown."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """The name of each program by its member of the archive; the member of a file that is the
    program itself is empty."""
    optional: frozenset[str] = frozenset()
    """Members that some versions do not have."""
    content: str = "programs"
    """`programs`, or `images`: an archive of container images."""

    @property
    def name(self) -> str:
        """The file name at the publisher."""
        return unquote(PurePosixPath(urlsplit(self.url).path).name)

    @property
    def signature(self) -> PublisherSignature | None:
        """The publisher's signature; None if there is none, or none to verify.

        A signature of the checksum file is of no use where the digest is known.
        """
        if self.signature_url:
            return PublisherSignature(self.signature_url, "file", self.key, self.key_url)
        if self.checksum_signature_url and not self.digest:
            url = self.checksum_signature_url
            return PublisherSignature(url, "checksums", self.key, self.key_url)
        return None

    @property
    def is_unverified(self) -> bool:
        """Neither the catalogue nor the publisher has a digest."""
        return not (self.digest or self.checksum_url)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of the catalogue."""

    name: str
    title: str
    license: str
    homepage: str
    role: Role
    """How it is used: a command, a plugin of the Docker CLI, the engine, or Kubernetes."""
    versions: tuple[str, ...]
    """Known versions, oldest first."""
    releases_url: str
    """The publisher's list of versions."""
    releases_pattern: str
    """A regular expression for that list; its group is a version."""
    _data: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def latest(self) -> str:
        """The newest known version."""
        return self.versions[-1]

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms, such as `linux/amd64`."""
        return tuple(self._data["platforms"])

    def accepts(self, version: str) -> bool:
        """Return whether a text is a version of the publisher's scheme, listed or not."""
        return re.fullmatch(self._data["versionPattern"], version) is not None

    def files(self, version: str, platform: str) -> tuple[CatalogueFile, ...]:
        """Return the files of a version. Raises HostError."""
        if not self.accepts(version):
            raise HostError(
                f'"{version}" is not a version of {self.name} such as {self.latest}; '
                f"known versions: {', '.join(self.versions)}"
            )
        variables = self._data["platforms"].get(platform)
        if variables is None:
            raise HostError(
                f"{self.name} is not available for {platform}; "
                f"available platforms: {', '.join(self.platforms)}"
            )
        known = self._data.get("digests", {}).get(version, {})
        files = [_file(one, version, variables, known) for one in self._data["files"]]
        key = self._data.get("publicKey", {})
        return tuple(_with_key(file, key) for file in files)

    def find_versions(self, text: str) -> tuple[str, ...]:
        """Return the versions in the text of the publisher's list, oldest first."""
        found = re.findall(self.releases_pattern, text, re.MULTILINE)
        return sorted_versions(one for one in found if self.accepts(one))


class Catalogue:
    """All tools."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.tools = tools

    @classmethod
    def shipped(cls) -> "Catalogue":
        """Return the catalogue of this release."""
        from importlib import resources  # 5 ms that only a use of the catalogue costs

        return cls.parse(resources.files(__package__).joinpath(_FILE).read_text())

    @classmethod
    def parse(cls, text: str) -> "Catalogue":
        """Parse and check the data of a catalogue. Raises InvalidCatalogue."""
        try:
            data = json.loads(text)
            found = data["format"]
            if found != FORMAT:
                raise InvalidCatalogue(
                    f"the format of the catalogue is {found}, supported is {FORMAT}"
                )
            return cls({name: _tool(name, one) for name, one in data["tools"].items()})
        except (ValueError, KeyError, TypeError, AttributeError, re.error) as error:
            raise InvalidCatalogue(f"the catalogue is not valid: {error!r}") from error

    def tool(self, name: str) -> Tool:
        """Return a tool. Raises HostError."""
        found = self.tools.get(name)
        if found is None:
            raise HostError(
                f'there is no tool "{name}"; available tools: {", ".join(sorted(self.tools))}'
            )
        return found

    def with_versions(self, versions: Mapping[str, Iterable[str]]) -> "Catalogue":
        """Return a catalogue with further versions; unknown tools are ignored."""
        tools = dict(self.tools)
        for name, found in versions.items():
            if (tool := tools.get(name)) is not None:
                accepted = [one for one in found if tool.accepts(one)]
                tools[name] = replace(tool, versions=sorted_versions({*tool.versions, *accepted}))
        return Catalogue(tools)


def platform_of(system: str, machine: str) -> str:
    """Return the platform of a host as the catalogue names it: `linux/amd64`."""
    return f"{system.lower()}/{_MACHINES.get(machine, machine)}"


def sorted_versions(versions: Iterable[str]) -> tuple[str, ...]:
    """Return distinct versions, oldest first."""
    return tuple(sorted(set(versions), key=version_key))


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions are compared."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def _tool(name: str, data: Mapping[str, Any]) -> Tool:
    if not _NAME.fullmatch(name):
        raise InvalidCatalogue(f'"{name}" cannot be the name of a tool')
    role = data["role"]
    if role not in _ROLES:
        raise InvalidCatalogue(f'{name}: the role "{role}" is none of {", ".join(_ROLES)}')
    releases = data["releases"]
    if re.compile(releases["pattern"]).groups != 1:
        raise InvalidCatalogue(f"{name}: the pattern of the releases must have one group")
    tool = Tool(
        name=name,
        title=str(data["title"]),
        license=str(data["license"]),
        homepage=str(data["homepage"]),
        role=cast(Role, role),
        versions=sorted_versions(data["versions"]),
        releases_url=str(releases["url"]),
        releases_pattern=str(releases["pattern"]),
        _data=data,
    )
    _check_files(tool)
    return tool


def _check_files(tool: Tool) -> None:
    """Build every file once, so that a broken entry is found when the catalogue is read."""
    if not tool.versions or not tool.platforms:
        raise InvalidCatalogue(f"{tool.name} has no version or no platform")
    for version in tool.versions:
        if not tool.accepts(version):
            raise InvalidCatalogue(f'{tool.name}: "{version}" does not match versionPattern')
    for platform in tool.platforms:
        for file in tool.files(tool.latest, platform):
            for program in file.programs.values():
                if not _PROGRAM.fullmatch(program):
                    raise InvalidCatalogue(f'{tool.name}: "{program}" is not a file name')


def _file(
    data: Mapping[str, Any],
    version: str,
    variables: Mapping[str, str],
    known: Mapping[str, Mapping[str, Any]],
) -> CatalogueFile:
    values = {**variables, "version": version}
    quoted = {name: quote(value, safe="") for name, value in values.items()}

    def url(key: str) -> str:
        return _expand(str(data.get(key, "")), quoted)

    file = CatalogueFile(
        url=url("url"),
        checksum_url=url("checksums"),
        signature_url=url("signature"),
        checksum_signature_url=url("checksumsSignature"),
        programs={
            _expand(member, values): program for member, program in data.get("programs", {}).items()
        },
        optional=frozenset(_expand(member, values) for member in data.get("optional", ())),
        content=str(data.get("content", "programs")),
    )
    for one in (file.url, file.checksum_url, file.signature_url, file.checksum_signature_url):
        if one and not one.startswith(("https://", "http://")):
            raise InvalidCatalogue(f'"{one}" is not a URL')
    found = known.get(file.url)
    if found is None:
        return file
    return replace(file, digest=str(Digest.parse(found["digest"])), size_bytes=int(found["size"]))


def _with_key(file: CatalogueFile, data: Mapping[str, str]) -> CatalogueFile:
    if not (file.signature_url or file.checksum_signature_url):
        return file
    url = str(data.get("url", ""))
    if not url.startswith(("https://", "http://")):
        raise InvalidCatalogue(f'"{file.url}" has a signature, but its tool has no publicKey')
    return replace(file, key_url=url, key=str(data.get("key", "")))


def _expand(template: str, values: Mapping[str, str]) -> str:
    """Replace `{name}`; nothing else of the format language, which could reach attributes."""
    parts = []
    for text, name, form, conversion in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            if form or conversion or name not in values:
                raise InvalidCatalogue(f'"{template}" has an unknown variable "{name}"')
            parts.append(values[name])
    return "".join(parts)
