# SPDX-License-Identifier: Apache-2.0
"""Entries of kubeconfig files, removed without touching anything else.

The file belongs to the user: comments, order, quoting and entries of other tools
keep their bytes. PyYAML says where each entry stands in the text; exactly these
lines are cut out (or, in a file written as JSON, these characters). The result must
parse to the old content minus our entries, otherwise the file is left alone.
"""

from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically

_LISTS = ("clusters", "contexts", "users")


def remove_kube_context(path: Path, name: str) -> bool:
    """Remove cluster, context and user of a name; whether there was any. Raises HostError.

    A current-context of that name becomes empty. A file that is no kubeconfig is
    left as it is, with an error if it mentions the name.
    """
    text = read_text(path)
    if text is None or name not in text:
        return False
    import yaml

    try:
        config = yaml.safe_load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise HostError(
            f'"{path}" is no YAML and was left as it is: {" ".join(str(error).split())}'
        ) from error
    if not isinstance(config, dict) or not isinstance(root, yaml.MappingNode):
        return False
    wanted = _without(config, name)
    if wanted == config:
        return False
    cut = _cut(text, root, name)
    try:
        is_right = _plain(yaml.safe_load(cut)) == _plain(wanted)
    except yaml.YAMLError:
        is_right = False
    if not is_right:
        raise HostError(
            f'"{path}" has an unusual form and was left as it is; '
            f"remove the entries named {name} yourself"
        )
    target = path.resolve()  # the file may be a link into a repository of dotfiles
    write_atomically(target, cut, mode=target.stat().st_mode & 0o777)
    return True


def _without(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = dict(config)
    for key in _LISTS:
        if isinstance(config.get(key), list):
            found[key] = [item for item in config[key] if not _is_named(item, name)]
    if config.get("current-context") == name:
        found["current-context"] = ""
    return found


def _is_named(item: Any, name: str) -> bool:
    return isinstance(item, dict) and item.get("name") == name


def _plain(config: Any) -> Any:
    """Empty lists and absent ones mean the same."""
    if not isinstance(config, dict):
        return config
    return {key: value for key, value in config.items() if value not in ([], None)}


def _cut(text: str, root: Any, name: str) -> str:
    changes: list[tuple[int, int, str]] = []
    for key, value in root.value:
        if key.value == "current-context" and value.value == name:
            changes.append((value.start_mark.index, value.end_mark.index, '""'))
        elif key.value in _LISTS and isinstance(value.value, list):
            ours = [node for node in value.value if _node_name(node) == name]
            if not ours:
                continue
            if len(ours) == len(value.value):
                changes.append(_emptied(text, key, value))
            elif value.flow_style:
                changes += [_flow_item(value.value, node) for node in ours]
            else:
                changes += [_block_item(text, node) for node in ours]
    for start, end, replacement in sorted(changes, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _node_name(node: Any) -> str:
    for key, value in node.value if isinstance(node.value, list) else ():
        if key.value == "name":
            return str(value.value)
    return ""


def _emptied(text: str, key: Any, value: Any) -> tuple[int, int, str]:
    if value.flow_style:
        return key.end_mark.index, value.end_mark.index, ": []"
    end = _line_end(text, _last(value))
    line_break = "\r\n" if text[:end].endswith("\r\n") else "\n"
    return key.end_mark.index, end, ": []" + line_break


def _flow_item(items: list[Any], node: Any) -> tuple[int, int, str]:
    place = items.index(node)
    if place + 1 < len(items):
        return node.start_mark.index, items[place + 1].start_mark.index, ""
    return items[place - 1].end_mark.index, node.end_mark.index, ""


def _block_item(text: str, node: Any) -> tuple[int, int, str]:
    """From the line with the dash to the last line with content; comments behind it stay."""
    start = text.rfind("\n", 0, text.rfind("-", 0, node.start_mark.index)) + 1
    return start, _line_end(text, _last(node)), ""


def _last(node: Any) -> int:
    """Where the last scalar in a node ends: a block's own end lies behind its comments."""
    if not isinstance(node.value, list) or not node.value or node.flow_style:
        return int(node.end_mark.index)
    inner = node.value[-1]
    return _last(inner[1] if isinstance(inner, tuple) else inner)


def _line_end(text: str, index: int) -> int:
    if index > 0 and text[index - 1] == "\n":  # block scalars end behind their line
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1
