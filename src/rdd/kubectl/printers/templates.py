# SPDX-License-Identifier: Apache-2.0
r"""JSONPath templates: `{.items[*].metadata.name}{"\n"}`, with `{range …}…{end}`.

Text outside braces is literal; a path inside braces prints the selected values,
separated by spaces, objects and lists as JSON. `rdd.api.jsonpath` evaluates the
paths; this module parses and renders the templates around them.
"""

from typing import Any

from rdd.api.jsonpath import JsonPath, JsonPathError
from rdd.base import govalue
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.session import compact

_Node = str | JsonPath | tuple[JsonPath, list[Any]]


class Template:
    """A parsed template."""

    def __init__(self, text: str) -> None:
        """Parse a template. Raises KubectlError."""
        self.text = text
        try:
            self._nodes = _parse(text)
        except JsonPathError as error:
            raise KubectlError(f"error parsing jsonpath {text}, {error}") from None

    def render(self, data: Any) -> str:
        """Render the template with some data. Raises JsonPathError."""
        out: list[str] = []
        _render(self._nodes, data, out)
        return "".join(out)

    def values(self, data: Any) -> list[Any]:
        """Return all values that the paths of the template select. Raises JsonPathError."""
        found: list[Any] = []
        for node in self._nodes:
            if isinstance(node, JsonPath):
                found += node.find(data)
        return found


def relaxed(text: str) -> str:
    """Normalise a path, `spec.a`, `.spec.a` or `{spec.a}`, to `{.spec.a}`.

    Raises KubectlError for any other form.
    """
    inner = text
    if text.startswith("{"):
        inner = text[1:-1] if text.endswith("}") else ""
    elif "{" in text or "}" in text:
        inner = ""
        for opener in ("['", "[?("):  # a name or a filter may contain braces
            inner = text if opener in text else inner
    if not inner:
        raise KubectlError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or"
            " '{name1.name2}' or '{.name1.name2}'"
        )
    return f"{{{inner}}}" if inner.startswith((".", "[")) else f"{{.{inner}}}"


def text_of(value: Any) -> str:
    """Render a selected value."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return compact(value)
    return "<nil>" if value is None else govalue.value(value)


def _parse(text: str) -> list[_Node]:
    nodes: list[_Node] = []
    stack: list[list[_Node]] = [nodes]
    at = 0
    while at < len(text):
        start = text.find("{", at)
        if start < 0:
            stack[-1].append(text[at:])
            break
        if start > at:
            stack[-1].append(text[at:start])
        end = _closing(text, start)
        inner = text[start + 1 : end].strip(" ")
        at = end + 1
        if inner.startswith("range") and not inner[5:6].isalnum():
            body: list[_Node] = []
            stack[-1].append((JsonPath(inner.removeprefix("range")), body))
            stack.append(body)
        elif inner == "end":
            if len(stack) == 1:
                raise JsonPathError("not in range, nothing to end")
            stack.pop()
        else:
            stack[-1].append(JsonPath(inner))
    if len(stack) > 1:
        raise JsonPathError("unterminated range")
    return nodes


def _closing(text: str, start: int) -> int:
    """Return the index of the brace that closes an action."""
    quote = ""
    at = start + 1
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "}":
            return at
        at += 1
    raise JsonPathError("unterminated quoted string" if quote else "unclosed action")


def _render(nodes: list[_Node], data: Any, out: list[str]) -> None:
    for node in nodes:
        if isinstance(node, str):
            out.append(node)
        elif isinstance(node, JsonPath):
            out.append(" ".join(map(text_of, node.find(data))))
        else:
            path, body = node
            for value in path.find(data):
                _render(body, value, out)
