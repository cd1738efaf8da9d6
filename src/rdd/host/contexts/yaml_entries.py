# SPDX-License-Identifier: Apache-2.0
"""Edit named entries in the lists of a YAML document, in its text.

    clusters:             # comments, order, quoting and other entries keep their bytes
    - name: work
      cluster: …
    - name: rancher-desktop-2
      cluster: …

PyYAML provides the position of each node in the text; exactly the lines of an entry are
replaced, removed or added (in a document written as JSON: the characters). Some documents
cannot be edited this way (anchors, duplicate keys): the result is parsed and compared with
the expected document, and `NotEditable` is raised if it differs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Entry = dict[str, Any]


class NotYaml(ValueError):
    """The text is not YAML, or not one document with a mapping."""


class NotEditable(ValueError):
    """The text cannot be edited without changing more than the entries."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change: entries to set or (None) to remove, by list, and scalars to set."""

    name: str
    entries: Mapping[str, Entry | None]
    scalars: Mapping[str, str]


def parsed(text: str) -> dict[str, Any]:
    """Return the parsed document; an empty one is an empty mapping. Raises NotYaml."""
    import yaml

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotYaml(" ".join(str(error).split())) from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise NotYaml("it is not a mapping")
    return found


def applied(config: Mapping[str, Any], edit: Edit) -> dict[str, Any]:
    """Return the parsed document after an edit. Raises NotEditable if a list is not a list."""
    found = dict(config)
    for key, entry in edit.entries.items():
        items = config.get(key) or []
        if not isinstance(items, list):
            if entry is not None:
                raise NotEditable(f"{key} is not a list")
            continue
        others = [item for item in items if not _is_named(item, edit.name)]
        if entry is None:
            if len(others) != len(items):
                found[key] = others
        elif len(others) == len(items):
            found[key] = [*items, entry]
        else:
            place = next(i for i, item in enumerate(items) if _is_named(item, edit.name))
            found[key] = [*others[:place], entry, *others[place:]]
    found.update(edit.scalars)
    return found


def edited(text: str, edit: Edit) -> str:
    """Return the text after an edit. Raises NotYaml, NotEditable."""
    import yaml

    before = parsed(text)
    wanted = applied(before, edit)
    if _plain(wanted) == _plain(before):
        return text
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    try:
        made = _spliced(text, root, edit, before)
        is_right = _plain(parsed(made)) == _plain(wanted)
    except (NotYaml, LookupError, AttributeError, ValueError) as error:
        raise NotEditable("it cannot be changed in place") from error
    if not is_right:
        raise NotEditable("it cannot be changed in place")
    return made


def _spliced(text: str, root: Any, edit: Edit, before: Mapping[str, Any]) -> str:
    if root is None or not root.value:
        # Only comments, or an empty mapping.
        wanted = {key: [entry] for key, entry in edit.entries.items() if entry is not None}
        return _with_line_end(text if root is None else "") + _dumped({**wanted, **edit.scalars})
    changes: list[tuple[int, int, str]] = []
    missing: dict[str, Any] = {}
    nodes = {key.value: (key, value) for key, value in root.value}
    line_break = "\r\n" if "\r\n" in text else "\n"
    for name, entry in edit.entries.items():
        if name not in nodes:
            if entry is not None:
                missing[name] = [entry]
            continue
        key, value = nodes[name]
        items = value.value if isinstance(value.value, list) else []
        ours = [node for node in items if _node_name(node) == edit.name]
        if entry is None:
            changes += _removals(text, key, value, ours)
        elif ours:
            present = next(i for i in before[name] if _is_named(i, edit.name))
            if present != entry:
                changes.append(_replacement(text, value, ours[0], entry))
        else:
            changes.append(_addition(text, root, key, value, entry))
    for name, scalar in edit.scalars.items():
        if name not in nodes:
            missing[name] = scalar
        elif str(nodes[name][1].value) != scalar or before[name] != scalar:
            node = nodes[name][1]
            start, end = node.start_mark.index, node.end_mark.index
            gap = " " if text[start - 1 : start] == ":" else ""  # `current-context:` alone
            is_quoted = root.flow_style or not scalar or text[start : start + 1] in ("'", '"')
            changes.append((start, end, gap + (json.dumps(scalar) if is_quoted else scalar)))
    changes += _appended(text, root, missing)
    for start, end, replacement in sorted(changes, reverse=True):
        replacement = replacement.replace("\n", line_break)
        text = text[:start] + replacement + text[end:]
    return text


# -- single changes, as (start, end, replacement)


def _removals(text: str, key: Any, value: Any, ours: Sequence[Any]) -> list[tuple[int, int, str]]:
    if not ours:
        return []
    if len(ours) == len(value.value):
        return [_emptied(text, key, value)]
    if value.flow_style:
        return [_flow_item(value.value, node) for node in ours]
    return [(*_block_lines(text, node), "") for node in ours]


def _replacement(text: str, value: Any, node: Any, entry: Entry) -> tuple[int, int, str]:
    if value.flow_style or node.flow_style:
        return node.start_mark.index, node.end_mark.index, json.dumps(entry)
    start, end = _block_lines(text, node)
    return start, end, _block_item(entry, _dash_column(text, node))


def _addition(text: str, root: Any, key: Any, value: Any, entry: Entry) -> tuple[int, int, str]:
    items = value.value if isinstance(value.value, list) else []
    if items and value.flow_style:
        end = items[-1].end_mark.index
        return end, end, ", " + json.dumps(entry)
    if items:
        _, end = _block_lines(text, items[-1])
        break_ = "" if text[:end].endswith("\n") else "\n"
        return end, end, break_ + _block_item(entry, _dash_column(text, items[-1]))
    # An empty list, or a key without a value.
    start, end = key.end_mark.index, value.end_mark.index
    if root.flow_style:
        return start, end, ": " + json.dumps([entry])
    tail = text[end : _line_end(text, end)]
    if tail.strip() and not tail.strip().startswith("#"):
        raise NotEditable("there is content after an empty list")
    end = _line_end(text, end) if tail.strip() == "" else end
    made = _block_item(entry, key.start_mark.column)
    if tail.strip():  # a comment stays on the line of the key
        return start, _line_end(text, end), f":{_spaced(tail)}{made}"
    return start, end, ":\n" + made


def _spaced(tail: str) -> str:
    return (tail if tail[:1].isspace() else " " + tail).rstrip("\r\n") + "\n"


def _appended(text: str, root: Any, missing: Mapping[str, Any]) -> list[tuple[int, int, str]]:
    if not missing:
        return []
    if root.flow_style:
        end = root.value[-1][1].end_mark.index
        pairs = "".join(f", {json.dumps(k)}: {json.dumps(v)}" for k, v in missing.items())
        return [(end, end, pairs)]
    end = _line_end(text, _last(root))
    indent = " " * root.value[0][0].start_mark.column
    made = "".join(indent + line + "\n" for line in _dumped(missing).splitlines())
    return [(end, end, ("" if text[:end].endswith("\n") else "\n") + made)]


def _emptied(text: str, key: Any, value: Any) -> tuple[int, int, str]:
    if value.flow_style:
        return key.end_mark.index, value.end_mark.index, ": []"
    return key.end_mark.index, _line_end(text, _last(value)), ": []\n"


def _flow_item(items: list[Any], node: Any) -> tuple[int, int, str]:
    place = items.index(node)
    if place + 1 < len(items):
        return node.start_mark.index, items[place + 1].start_mark.index, ""
    return items[place - 1].end_mark.index, node.end_mark.index, ""


# -- texts and places


def _block_item(entry: Entry, column: int) -> str:
    lines = _dumped([entry]).splitlines()
    return "".join(" " * column + line + "\n" for line in lines)


def _dumped(value: Any) -> str:
    import yaml

    # No wrapping: a certificate is one long word, as kubectl writes it.
    return str(yaml.safe_dump(value, sort_keys=False, default_flow_style=False, width=1 << 30))


def _with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _block_lines(text: str, node: Any) -> tuple[int, int]:
    """Return the lines of an item without the comments that follow it."""
    start = text.rfind("\n", 0, _dash(text, node)) + 1
    return start, _line_end(text, _last(node))


def _dash(text: str, node: Any) -> int:
    return text.rfind("-", 0, node.start_mark.index)


def _dash_column(text: str, node: Any) -> int:
    dash = _dash(text, node)
    return dash - (text.rfind("\n", 0, dash) + 1)


def _last(node: Any) -> int:
    """Return the end of the last scalar of a node; the end of a block includes its comments."""
    if not isinstance(node.value, list) or not node.value or node.flow_style:
        return int(node.end_mark.index)
    inner = node.value[-1]
    return _last(inner[1] if isinstance(inner, tuple) else inner)


def _line_end(text: str, index: int) -> int:
    if index > 0 and text[index - 1] == "\n":  # block scalars end behind their line
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _node_name(node: Any) -> str:
    for key, value in node.value if isinstance(node.value, list) else ():
        if key.value == "name":
            return str(value.value)
    return ""


def _is_named(item: Any, name: str) -> bool:
    return isinstance(item, dict) and item.get("name") == name


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without empty members: they are equal to absent ones."""
    return {key: value for key, value in config.items() if value not in ([], None, "")}
