# SPDX-License-Identifier: Apache-2.0
"""What a profile allows: questions with the reason of a refusal as the answer.

Every answer is empty for "yes"; otherwise it names the field, the file and its line, so that the
user can tell an administrator which rule to change. A broken profile refuses all of it.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdd.api import names
from rdd.api.types import Object
from rdd.fetch.sources import EVERYTHING, Sources
from rdd.profiles import settings

if TYPE_CHECKING:
    from rdd.profiles.images import ImagePattern

ACCEPT = "`rdd profile accept` takes over all locked values"
_MARKS = {"cpus": names.CPUS_DEFAULTED, "memory": names.MEMORY_DEFAULTED}
PolicyRules = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Lock:
    """One locked setting of the App."""

    path: settings.Path
    value: Any
    line: int

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Deviation:
    """A setting of an App that a lock does not allow."""

    field: str
    """Relative to the spec, or `status.…`."""
    reason: str


class Rules(ABC):
    """The profile of an instance, broken or not."""

    path: Path
    is_system: bool
    locks: Sequence[Lock] = ()
    sources: Sources = EVERYTHING
    ceiling: PolicyRules | None = None
    """The most that clients of the API may do; None: no limit."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The content of the file, empty if it cannot be read."""

    @abstractmethod
    def app_deviations(self, app: Object) -> list[Deviation]:
        """Return what keeps an App from starting."""

    @abstractmethod
    def machine_problem(self, *, is_apps: bool, template: str | None) -> str:
        """Return why a virtual machine may not exist or start; `template` is its text if known."""

    @abstractmethod
    def source_problem(self, location: str, digest: str) -> str:
        """Return why a file may not be fetched."""

    @abstractmethod
    def pull_problem(self, image: str) -> str:
        """Return why an image may not be pulled."""

    @abstractmethod
    def run_problem(self, image: str) -> str:
        """Return why a container may not be created from an image."""

    @abstractmethod
    def local_name_problem(self, image: str) -> str:
        """Return why an image that was built or tagged here may not have a name."""

    def app_problem(self, app: Object) -> str:
        """Return why an App may not start, in one line."""
        found = [deviation.reason for deviation in self.app_deviations(app)]
        if not found:
            return ""
        return "; ".join(found) + (f"; {ACCEPT}" if self.locks else "")


class BrokenProfile(Rules):
    """A profile with mistakes, or a file that cannot be read."""

    _RULES: PolicyRules = (
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
        # An App that runs can be stopped; admission refuses everything else.
        {
            "apiGroups": [names.APP_GROUP, names.LIMA_GROUP],
            "resources": ["apps", "limavms"],
            "verbs": ["patch", "update"],
        },
    )

    def __init__(
        self, path: Path, problems: Sequence[str], *, is_system: bool, text: str = ""
    ) -> None:
        """`problems` start with the path, and the line if it is known."""
        self.path = path
        self.problems = problems
        self.is_system = is_system
        self.ceiling = self._RULES if is_system else None
        self.sources = Sources(patterns=(), origin=f"{path}, which is broken")
        self._text = text
        more = f" (and {len(problems) - 1} more mistakes)" if len(problems) > 1 else ""
        self._refusal = (
            f"the deployment profile is broken, so nothing may start: {problems[0]}{more}; "
            "`rdd profile check` lists all mistakes"
        )

    @property
    def text(self) -> str:
        return self._text

    def app_deviations(self, app: Object) -> list[Deviation]:
        return [Deviation("", self._refusal)]

    def machine_problem(self, *, is_apps: bool, template: str | None) -> str:
        return self._refusal

    def source_problem(self, location: str, digest: str) -> str:
        return self._refusal

    def pull_problem(self, image: str) -> str:
        return self._refusal

    def run_problem(self, image: str) -> str:
        return self._refusal

    def local_name_problem(self, image: str) -> str:
        return self._refusal


@dataclass(frozen=True)
class Profile(Rules):
    """A valid profile."""

    path: Path
    is_system: bool
    content: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a new App."""
    locks: Sequence[Lock] = ()
    only_app: bool = False
    templates: Sequence[str] | None = None
    """Digests of the templates that machines of the user's own may have; None: any."""
    sources: Sources = EVERYTHING
    images: "Sequence[ImagePattern] | None" = None
    """The images that may be pulled; None: all."""
    local_images: "Sequence[ImagePattern]" = ()
    """The names that images of this machine may have."""
    ceiling: PolicyRules | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.content

    def app_deviations(self, app: Object) -> list[Deviation]:
        """Return the settings that differ from their locks."""
        spec = app.get("spec") or {}
        marks = (app.get("metadata") or {}).get("annotations") or {}
        driver = (app.get("status") or {}).get("virtualMachineType")
        found = []
        for lock in self.locks:
            value = settings.value_at(spec, lock.path)
            where = self.at(f"app.locked.{lock.name}", lock.line)
            locked = f"is locked to {settings.shown(lock.value)} by {where}"
            if not settings.same(lock.path, value, lock.value):
                found.append(
                    Deviation(
                        lock.name, f"spec.{lock.name} {locked}; it is {settings.shown(value)}"
                    )
                )
            elif marks.get(_MARKS.get(lock.path[-1], "")) == "true" and lock.value:
                found.append(
                    Deviation(
                        lock.name,
                        f"spec.{lock.name} {locked}; it is marked as a default, "
                        "which the type host does not enforce",
                    )
                )
            if lock.path == settings.TYPE and driver and lock.value not in ("auto", driver):
                reason = (
                    f"spec.{lock.name} {locked}; the virtual machine exists with the type "
                    f'"{driver}": `rdd delete` deletes it'
                )
                found.append(Deviation(f"status.{lock.name}", reason))
        return found

    def machine_problem(self, *, is_apps: bool, template: str | None) -> str:
        if self.only_app and not is_apps:
            where = self.at("limavm.machines")
            return f"only the virtual machine of the App is allowed by limavm.machines, {where}"
        if template is None:
            return ""
        # The template of the App's machine follows from its settings.
        own = "" if is_apps else self._template_problem(template)
        return own or self._files_problem(template)

    def _template_problem(self, template: str) -> str:
        if self.templates is None:
            return ""
        digest = "sha256:" + hashlib.sha256(template.encode()).hexdigest()
        if digest in self.templates:
            return ""
        where = self.at("limavm.templates")
        return f"the template has the digest {digest}, which limavm.templates, {where}, lacks"

    def _files_problem(self, template: str) -> str:
        if self.sources.patterns is None and not self.sources.has_digests:
            return ""
        from rdd.vm.template import TemplateError, parse

        try:
            images = parse(template).images
        except TemplateError as error:
            return f"the template cannot be checked: {error}"
        for image in images:
            for file in (image, image.kernel, image.initrd):
                if file is not None and (
                    problem := self.source_problem(file.location, file.digest)
                ):
                    return f"the template needs a file that is not allowed: {problem}"
        return ""

    def source_problem(self, location: str, digest: str) -> str:
        return self.sources.problem(location, digest)

    def pull_problem(self, image: str) -> str:
        if self.images is None or self._matches(self.images, image):
            return ""
        return self._image_refusal(image, self.images)

    def run_problem(self, image: str) -> str:
        if self.images is None:
            return ""
        allowed = (*self.images, *self.local_images)
        if self._matches(allowed, image):
            return ""
        return self._image_refusal(image, allowed)

    def local_name_problem(self, image: str) -> str:
        if self.images is None or self._matches(self.local_images, image):
            return ""
        names_ = ", ".join(pattern.text for pattern in self.local_images) or "no name"
        return (
            f'an image of this machine may not have the name "{image}" by image.local, '
            f"{self.at('image.local', self.lines.get('image', 1))}: allowed is {names_}"
        )

    def at(self, name: str, line: int = 0) -> str:
        """Return file and line of a field."""
        return f"{self.path}:{line or self.lines.get(name, 1)}"

    def _matches(self, patterns: "Sequence[ImagePattern]", image: str) -> bool:
        from rdd.profiles.images import reference

        found = reference(image)
        return found is not None and any(pattern.matches(found) for pattern in patterns)

    def _image_refusal(self, image: str, allowed: "Sequence[ImagePattern]") -> str:
        from rdd.profiles.images import reference

        known = ", ".join(pattern.text for pattern in allowed) or "none"
        what = f'the image "{image}"'
        if reference(image) is None:
            what += ", which is not a name or could be an ID (write it with a tag),"
        return f"{what} is not allowed by image.allowed, {self.at('image.allowed')}: {known}"
