# SPDX-License-Identifier: Apache-2.0
"""`-o custom-columns=NAME:.metadata.name,…` and the same from a file."""

from typing import Any

from rdd.api.jsonpath import JsonPath, JsonPathError
from rdd.api.types import Object
from rdd.base import goformat
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.printers.output import read_template
from rdd.kubectl.printers.tabwriter import TabWriter
from rdd.kubectl.printers.templates import relaxed


class CustomColumns:
    """Prints objects as lines of columns, with one header."""

    def __init__(self, form: str, spec: str, *, no_headers: bool) -> None:
        if form == "custom-columns-file":
            self._columns = _from_file(read_template(spec))
        else:
            self._columns = _from_spec(spec)
        self._shows_header = not no_headers
        self._writer = TabWriter(keeps_widths=True)

    def __call__(self, obj: Object) -> str:
        """Return the lines of an object, or of all items of a List."""
        if self._shows_header:
            self._writer.line(*(name for name, _ in self._columns))
            self._shows_header = False
        is_list = isinstance(obj.get("items"), list)
        for item in obj["items"] if is_list else [obj]:
            self._writer.line(*(_cell(path, item) for _, path in self._columns))
        return self._writer.flush()


def _from_spec(spec: str) -> list[tuple[str, JsonPath]]:
    if not spec:
        raise KubectlError("custom-columns format specified but no custom columns given")
    columns = []
    for part in spec.split(","):
        header, colon, path = part.partition(":")
        if not colon:
            raise KubectlError(
                f"unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>"
            )
        columns.append((header, _path(path)))
    return columns


def _from_file(text: str) -> list[tuple[str, JsonPath]]:
    lines = text.splitlines()
    if len(lines) < 2 or len(lines[0].split()) != len(lines[1].split()):
        raise KubectlError("custom-columns-file requires a line of headers and a line of paths")
    return [(h, _path(p)) for h, p in zip(lines[0].split(), lines[1].split(), strict=True)]


def _path(text: str) -> JsonPath:
    try:
        return JsonPath(relaxed(text)[1:-1])
    except JsonPathError as error:
        raise KubectlError(f"error parsing jsonpath {text}, {error}") from None


def _cell(path: JsonPath, obj: Any) -> str:
    try:
        found = path.find(obj)
    except JsonPathError:
        found = []
    return ",".join(map(goformat.plain, found)) or "<none>"
