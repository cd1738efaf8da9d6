# SPDX-License-Identifier: Apache-2.0
"""YAML as a tree of nodes that record their lines, for messages that name them.

Nodes are built from libyaml's events: nothing is resolved to dates, numbers or booleans here.
An alias is the node of its anchor, not a copy, so a text that multiplies itself costs nothing
until its values are copied. The depth is limited.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 64
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class YamlSyntaxError(ValueError):
    """The text is not one YAML document; the message starts with the line if it is known."""


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value of the file: text, list of nodes, or mapping from text to nodes."""

    value: "str | list[YamlNode] | dict[str, YamlNode]"
    line: int
    is_plain: bool = False
    """A scalar without quotes; only these can be null."""
    key_lines: Mapping[str, int] | None = None
    """The lines of the keys of a mapping."""

    @property
    def is_null(self) -> bool:
        return self.is_plain and isinstance(self.value, str) and self.value in _NULLS

    def line_of(self, path: Iterable[str | int]) -> int:
        """Return the line of a member, as far as the path exists."""
        node, line = self, self.line
        for step in path:
            members = node.value
            if isinstance(members, dict) and step in members:
                line, node = (node.key_lines or {})[str(step)], members[str(step)]
            elif isinstance(members, list) and isinstance(step, int) and step < len(members):
                node = members[step]
                line = node.line
            else:
                break
        return line


def compose(text: str, *, what: str) -> YamlNode | None:
    """Return the root node of a text; None if empty. Raises YamlSyntaxError.

    `what` names the text in messages, with its article.
    """
    import yaml  # 20 ms, paid only by processes that read YAML

    try:
        # encoded here: libyaml reports a lone surrogate as an internal failure
        return _Composer(yaml.CBaseLoader(text.encode("utf-8")).get_event, yaml, what).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlSyntaxError(f"{where}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise YamlSyntaxError(f"the text is not YAML: {error.reason}") from None
    except UnicodeEncodeError as error:
        raise YamlSyntaxError(f"the text is not Unicode: {error.reason}") from None


class _Composer:
    """Builds nodes from events."""

    def __init__(self, next_event: Any, yaml: Any, what: str) -> None:
        self.next = next_event
        self.yaml = yaml
        self.what = what
        self.anchors: dict[str, YamlNode] = {}

    def document(self) -> YamlNode | None:
        self.next()  # stream start
        if type(self.next()) is not self.yaml.DocumentStartEvent:
            return None
        root = self.node(self.next(), 0)
        self.next()  # document end
        following = self.next()
        if type(following) is not self.yaml.StreamEndEvent:
            line = following.start_mark.line + 1
            raise YamlSyntaxError(f"line {line}: {self.what} is one YAML document")
        return root

    def node(self, event: Any, depth: int) -> YamlNode:
        line = event.start_mark.line + 1
        if depth > MAX_DEPTH:
            raise YamlSyntaxError(f"line {line}: nested deeper than {MAX_DEPTH} levels")
        kind = type(event)
        if kind is self.yaml.AliasEvent:
            if event.anchor not in self.anchors:
                raise YamlSyntaxError(f'line {line}: anchor "{event.anchor}" is not defined')
            return self.anchors[event.anchor]
        if kind is self.yaml.ScalarEvent:
            node = YamlNode(event.value, line, event.implicit[0])
        elif kind is self.yaml.SequenceStartEvent:
            node = YamlNode(self.items(depth), line)
        else:
            key_lines: dict[str, int] = {}
            node = YamlNode(self.mapping(depth, key_lines), line, key_lines=key_lines)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def items(self, depth: int) -> list[YamlNode]:
        found = []
        while type(event := self.next()) is not self.yaml.SequenceEndEvent:
            found.append(self.node(event, depth + 1))
        return found

    def mapping(self, depth: int, key_lines: dict[str, int]) -> dict[str, YamlNode]:
        found: dict[str, YamlNode] = {}
        while type(event := self.next()) is not self.yaml.MappingEndEvent:
            line = event.start_mark.line + 1
            key = self.node(event, depth + 1).value
            if not isinstance(key, str):
                raise YamlSyntaxError(f"line {line}: a key must be text")
            if key in found:
                raise YamlSyntaxError(
                    f"line {line}: key {_shown(key)} is given twice, first in line {key_lines[key]}"
                )
            key_lines[key] = line
            found[key] = self.node(self.next(), depth + 1)
        return found


def _shown(key: str) -> str:
    from rdd.base.gotext import quote

    return quote(key if len(key) <= 60 else key[:60] + "…")
