# SPDX-License-Identifier: Apache-2.0
"""Parses templates from YAML.

Values are built from libyaml's events, not by PyYAML's constructors: the field determines the
type of its scalar. `KUBERNETES_ENABLED: true` under `param` is the text "true", `cpus: "4"` is
the number 4, and no field can become a date. Every value records its line. Depth and size are
limited, so a text that multiplies itself with aliases is rejected before it fills the memory.

A value that cannot be parsed is reported with its path and replaced by its default, and the
parser continues: `read` returns all problems together with the rest of the template.
"""

import difflib
import re
from typing import Any

from rdd.base import yaml_nodes
from rdd.base.sizes import parse_size
from rdd.base.yaml_nodes import YamlNode
from rdd.vm.template.errors import TemplateSyntaxError, shown
from rdd.vm.template.model import Template
from rdd.vm.template.shape import FieldShape, shape_of

MAX_VALUES = 100_000  # a template has hundreds; the App's has less than 200

_is_int = re.compile(r"[-+]?[0-9]{1,18}").fullmatch
_is_plain_key = re.compile(r"[\w./-]{1,60}").fullmatch
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

# Keys of Lima before 1.0, and their replacements.
_REPLACED = {
    "network": "networks",
    "useHostResolver": "hostResolver.enabled",
}


def read(text: str) -> tuple[Template, list[str]]:
    """Return a template and the problems of its form. Raises TemplateSyntaxError."""
    root = compose(text)
    problems: list[str] = []
    if root is None or root.is_null:
        return Template(), problems
    template = _Decoder(problems).record(Template, root, "")
    return template, problems


def compose(text: str) -> YamlNode | None:
    """Return the root node of a YAML text; None if empty. Raises TemplateSyntaxError."""
    try:
        return yaml_nodes.compose(text, what="a template")
    except yaml_nodes.YamlSyntaxError as error:
        raise TemplateSyntaxError([str(error)]) from None


class _Decoder:
    """Builds records from nodes; collects problems in a list."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.values = 0

    def report(self, node: YamlNode, path: str, text: str) -> None:
        self.problems.append(
            f"line {node.line}: {path}: {text}" if path else f"line {node.line}: {text}"
        )

    def record(self, record: type[Any], node: YamlNode, path: str) -> Any:
        if not isinstance(node.value, dict):
            if not path:
                raise TemplateSyntaxError(
                    [
                        f"line {node.line}: a template is a mapping of keys "
                        f"to values, not {_kind_of(node)}"
                    ]
                )
            self.report(node, path, f"{_described(node)} is not a mapping")
            return record()
        shapes = {item.key: item for item in shape_of(record)}
        values: dict[str, Any] = {}
        for key, child in node.value.items():
            child_path = _child_path(path, key)
            item = shapes.get(key)
            if item is None:
                self.report(child, child_path, "unknown key" + _hint(key, list(shapes)))
            elif not child.is_null:
                value = self.field(item, child, child_path)
                if value is not None:
                    values[item.name] = value
        return record(**values)

    def field(self, item: FieldShape, node: YamlNode, path: str) -> Any:
        self.count(node)
        match item.kind:
            case "record":
                return self.record(item.record or Template, node, path)
            case "records":
                return self.records(item.record or Template, node, path)
            case "texts":
                return self.texts(node, path)
            case "map":
                return self.texts_by_key(node, path)
            case "range":
                return self.range(node, path)
            case "any":
                return self.arbitrary(node)
            case kind:
                return self.scalar(kind, node, path)

    def count(self, node: YamlNode) -> None:
        """Count a value, also when it is reached through an alias."""
        self.values += 1
        if self.values > MAX_VALUES:
            raise TemplateSyntaxError([f"line {node.line}: more than {MAX_VALUES} values"])

    def list(self, node: YamlNode, path: str) -> "list[YamlNode]":
        if not isinstance(node.value, list):
            self.report(node, path, f"{_described(node)} is not a list")
            return []
        return node.value

    def records(self, record: type[Any], node: YamlNode, path: str) -> tuple[Any, ...]:
        found = []
        for number, child in enumerate(self.list(node, path)):
            self.count(child)
            found.append(self.record(record, child, f"{path}[{number}]"))
        return tuple(found)

    def texts(self, node: YamlNode, path: str) -> tuple[str, ...]:
        found = []
        for number, child in enumerate(self.list(node, path)):
            self.count(child)
            text = self.scalar("text", child, f"{path}[{number}]")
            if text is not None:
                found.append(text)
        return tuple(found)

    def texts_by_key(self, node: YamlNode, path: str) -> dict[str, str]:
        if not isinstance(node.value, dict):
            self.report(node, path, f"{_described(node)} is not a mapping")
            return {}
        found = {}
        for key, child in node.value.items():
            self.count(child)
            text = "" if child.is_null else self.scalar("text", child, _child_path(path, key))
            if text is not None:
                found[key] = text
        return found

    def range(self, node: YamlNode, path: str) -> tuple[int, int] | None:
        numbers = [
            self.scalar("int", child, f"{path}[{number}]")
            for number, child in enumerate(self.list(node, path))
        ]
        if len(numbers) == 2 and None not in numbers:
            return numbers[0], numbers[1]
        if None not in numbers:
            self.report(
                node, path, f"must be two ports, the first and the last, not {len(numbers)}"
            )
        return None

    def arbitrary(self, node: YamlNode) -> Any:
        """Return a value of arbitrary form (`vmOpts`), scalars resolved as in YAML 1.2."""
        self.count(node)
        if isinstance(node.value, list):
            return [self.arbitrary(child) for child in node.value]
        if isinstance(node.value, dict):
            return {key: self.arbitrary(child) for key, child in node.value.items()}
        if node.is_null:
            return None
        if node.is_plain:
            if node.value in _BOOLS:
                return _BOOLS[node.value]
            if _is_int(node.value):
                return int(node.value)
        return node.value

    def scalar(self, kind: str, node: YamlNode, path: str) -> Any:
        text = node.value
        if not isinstance(text, str):
            self.report(node, path, f"{_described(node)} is not {_EXPECTED[kind]}")
            return None
        if kind == "text":
            if "\0" not in text:
                return text
            self.report(node, path, f"{shown(text)} must not contain the character NUL")
            return None
        value: Any = None
        if kind == "bool":
            value = _BOOLS.get(text)
        elif kind == "size":
            value = parse_size(text)
        elif _is_int(text):
            value = int(text)
        if value is None:
            self.report(node, path, f"{shown(text)} is not {_EXPECTED[kind]}")
        return value


_EXPECTED = {
    "text": "text",
    "bool": "true or false",
    "int": "a whole number",
    "size": 'a size such as "4GiB"',
}


def _child_path(path: str, key: str) -> str:
    shown_key = key if _is_plain_key(key) else shown(key)
    return f"{path}.{shown_key}" if path else shown_key


def _kind_of(node: YamlNode) -> str:
    if isinstance(node.value, list):
        return "a list"
    return "a mapping" if isinstance(node.value, dict) else "text"


def _described(node: YamlNode) -> str:
    return shown(node.value) if isinstance(node.value, str) else _kind_of(node)


def _hint(key: str, known: list[str]) -> str:
    if key in _REPLACED:
        return f', use "{_REPLACED[key]}"'
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower()[:100], list(by_lower), n=1, cutoff=0.6)
    return f', did you mean "{by_lower[near[0]]}"?' if near else ""
