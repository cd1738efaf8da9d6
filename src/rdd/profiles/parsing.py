# SPDX-License-Identifier: Apache-2.0
"""The way from the file of a profile to its rules, with all mistakes of the file.

A mistake reads `FILE:LINE: field: what is wrong`. First the syntax, which ends the search; then
unknown fields and values that the schema does not allow; then what only the fields together
show: patterns, and settings with one value as a default and another as a lock.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from rdd.api import yamlcodec
from rdd.api.errors import ApiError
from rdd.api.quantity import Quantity, QuantityError
from rdd.base.yaml_nodes import YamlNode, YamlSyntaxError, compose
from rdd.fetch.sources import Sources, UrlPattern
from rdd.profiles import settings
from rdd.profiles.images import ImagePattern
from rdd.profiles.places import Places
from rdd.profiles.reading import ProfileFile, Unreadable, find
from rdd.profiles.rules import BrokenProfile, Lock, Profile, Rules
from rdd.profiles.schema import ONLY_APP, schema
from rdd.schema.node import Node, compile_node
from rdd.schema.prune import prune
from rdd.schema.validate import Validator, compile_validator

_MAX_DEPTH = 64
_MAX_PROBLEMS = 100
_ROOT: Final = "profile"
_is_version = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+").fullmatch
_step = re.compile(r"[^.\[\]]+").findall

P = TypeVar("P")


def load(places: Places) -> Rules | None:
    """Return the rules that apply; None without a profile."""
    try:
        found = find(places)
    except Unreadable as error:
        problem = f"{error.path}: {error.reason}"
        return BrokenProfile(error.path, [problem], is_system=error.is_system)
    return None if found is None else parse(found)


def parse(file: ProfileFile) -> Rules:
    """Return the rules of a file."""
    try:
        text = file.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = file.data[: error.start].count(b"\n") + 1
        return _broken(file, [(line, f"byte {error.start} is not UTF-8")])
    reader = _Reader(file)
    profile = reader.read(text)
    if profile is None:
        return _broken(file, reader.problems, text)
    return profile


def _broken(
    file: ProfileFile, problems: Iterable[tuple[int, str]], text: str = ""
) -> BrokenProfile:
    found = [
        f"{file.path}:{line}: {problem}" if line else f"{file.path}: {problem}"
        for line, problem in sorted(dict.fromkeys(problems))
    ]
    return BrokenProfile(file.path, found[:_MAX_PROBLEMS], is_system=file.is_system, text=text)


class _Reader:
    """Reads one file; collects its mistakes with their lines."""

    def __init__(self, file: ProfileFile) -> None:
        self._file = file
        self._root = YamlNode({}, 1)
        self.problems: list[tuple[int, str]] = []

    def read(self, text: str) -> Profile | None:
        """Return the profile; None if there are problems."""
        if text.lstrip().startswith("{"):
            text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not
        try:
            root = compose(text, what="a profile")
            value = yamlcodec.read(text.encode(), max_depth=_MAX_DEPTH).value
        except YamlSyntaxError as error:
            self._syntax(str(error))
            return None
        except ApiError as error:
            self._syntax(error.message.removeprefix("yaml: "))
            return None
        if root is None or value is None:
            value, root = {}, self._root
        self._root = root
        if not isinstance(value, dict):
            self._report(
                1, "a profile is a mapping with the sections app, limavm, resource, image and rdd"
            )
            return None
        faulty = self._check_schema(value)
        sound = {name: section for name, section in value.items() if name not in faulty}
        profile = self._profile(sound, text)
        return None if self.problems else profile

    def _syntax(self, message: str) -> None:
        found = re.fullmatch(r"line ([0-9]+): (.*)", message, re.DOTALL)
        if found:
            self._report(int(found[1]), found[2])
        else:
            self._report(0, message)

    def _check_schema(self, value: dict[str, Any]) -> set[str]:
        """Drop unknown fields; return the sections with values that the schema forbids."""
        node, validator = _compiled()
        unknown: list[str] = []
        prune(node, {_ROOT: value}, unknown=unknown)
        for path in unknown:
            self._report_at(path.removeprefix(f"{_ROOT}."), "unknown field")
        faulty = set()
        for error in validator({_ROOT: value}):
            field = error.field.removeprefix(f"{_ROOT}.")
            self._report_at(field, error.body.replace(f"{_ROOT}.", ""))
            faulty.add(str(_steps(field)[0]))
        return faulty

    # -- sections

    def _profile(self, value: dict[str, Any], text: str) -> Profile:
        app, machines = value.get("app") or {}, value.get("limavm") or {}
        images, rdd = value.get("image") or {}, value.get("rdd") or {}
        defaults, locked = app.get("defaults") or {}, app.get("locked") or {}
        locks = [
            Lock(path, setting, self._line(("app", "locked", *path)))
            for path, setting in settings.leaves(locked)
        ]
        self._check_settings("defaults", defaults)
        self._check_settings("locked", locked)
        for lock in locks:
            given = settings.value_at(defaults, lock.path)
            if given is not None and not settings.same(lock.path, given, lock.value):
                self._report_at(
                    f"app.defaults.{lock.name}",
                    f"contradicts app.locked.{lock.name} in line {lock.line}",
                )
        allowed = self._patterns("image.allowed", images.get("allowed"), ImagePattern.of)
        local = self._patterns("image.local", images.get("local"), ImagePattern.of)
        if images.get("local") is not None and allowed is None:
            self._report_at("image.local", "has no effect without image.allowed")
        templates = machines.get("templates")
        if machines.get("machines") == ONLY_APP and templates is not None:
            self._report_at("limavm.templates", 'contradicts limavm.machines "app"')
        rules = rdd.get("rules")
        self._check_rules(rules or ())
        return Profile(
            path=self._file.path,
            is_system=self._file.is_system,
            content=text,
            defaults=defaults,
            locks=locks,
            only_app=machines.get("machines") == ONLY_APP,
            templates=None if templates is None else [digest.lower() for digest in templates],
            sources=self._sources(value.get("resource") or {}),
            images=allowed,
            local_images=local or (),
            ceiling=rules,
            lines={
                f"{section}.{name}": self._line((section, name))
                for section, members in value.items()
                if isinstance(members, dict)
                for name in members
            },
        )

    def _sources(self, section: dict[str, Any]) -> Sources:
        patterns = self._patterns("resource.urls", section.get("urls"), UrlPattern.parse)
        digests: dict[str, str] = {}
        for number, entry in enumerate(section.get("digests") or ()):
            url = entry["url"]
            if digests.setdefault(url, entry["digest"]).lower() != entry["digest"].lower():
                self._report_at(
                    f"resource.digests[{number}].digest", f'contradicts another digest of "{url}"'
                )
        return Sources(
            patterns,
            digests,
            requires_digest=bool(section.get("requireDigest")),
            origin=str(self._file.path),
        )

    def _patterns(
        self, name: str, texts: Sequence[str] | None, of: Callable[[str], P]
    ) -> Sequence[P] | None:
        if texts is None:
            return None
        found = []
        for number, text in enumerate(texts):
            try:
                found.append(of(text))
            except ValueError as error:
                self._report_at(f"{name}[{number}]", f'"{text}" {error}')
        return found

    def _check_settings(self, kind: str, tree: dict[str, Any]) -> None:
        for path, value in settings.leaves(tree):
            name = f"app.{kind}.{'.'.join(path)}"
            if path == ("virtualMachine", "cpus") and value < 1:
                self._report_at(name, f"{value} must be at least 1; leave it out for any number")
            elif path == settings.MEMORY and not _is_memory(value):
                self._report_at(name, f'"{value}" must be a quantity of at least 2Gi')
            elif (
                kind == "locked"
                and path == ("kubernetes", "version")
                and value
                and not _is_version(value)
            ):
                self._report_at(
                    name,
                    f'"{value}" must be a version such as 1.34.6: the version of a channel changes',
                )

    def _check_rules(self, rules: Iterable[dict[str, Any]]) -> None:
        for number, rule in enumerate(rules):
            where = f"rdd.rules[{number}]"
            has_urls, has_resources = "nonResourceURLs" in rule, "resources" in rule
            if has_urls == has_resources:
                self._report_at(where, "must have either resources or nonResourceURLs")
            elif has_resources and "apiGroups" not in rule:
                self._report_at(where, 'must have apiGroups; the core group is ""')
            elif has_urls and ("apiGroups" in rule or "resourceNames" in rule):
                self._report_at(where, "must not have nonResourceURLs and fields of resources")

    # -- lines

    def _report_at(self, path: str, problem: str) -> None:
        self._report(self._line(_steps(path)), f"{path}: {problem}" if path else problem)

    def _report(self, line: int, problem: str) -> None:
        self.problems.append((line, problem))

    def _line(self, path: Iterable[str | int]) -> int:
        return self._root.line_of(path)


def _steps(path: str) -> list[str | int]:
    return [int(step) if step.isdecimal() else step for step in _step(path)]


def _is_memory(value: Any) -> bool:
    try:
        return Quantity.parse(str(value)).value() >= 2 << 30
    except QuantityError:
        return False


@cache
def _compiled() -> tuple[Node, Validator]:
    # One level deeper: at the root, pruning leaves the metadata of an object alone.
    node = compile_node({"type": "object", "properties": {_ROOT: schema()}})
    return node, compile_validator(node)
