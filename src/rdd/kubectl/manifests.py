# SPDX-License-Identifier: Apache-2.0
"""Objects from files, directories, URLs and stdin (`-f`).

A file holds JSON or any number of YAML documents; a List counts as its items.
Each object is returned with its source, because messages name it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.session import Session

FLAGS = (
    Flag("filename", "file, directory, URL or - with objects; may be repeated", "list", short="f"),
    Flag("recursive", "read directories recursively", "bool", short="R"),
)
UNSUPPORTED = ("kustomize",)
STDIN = "STDIN"

_EXTENSIONS = (".json", ".yaml", ".yml")
_SEPARATOR = re.compile(rb"^---[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)


class Manifest(NamedTuple):
    """One object and the file it was read from."""

    object: Object
    source: str


def read(session: Session, *, validate: bool = True) -> list[Manifest]:
    """Return all objects that `-f` names, in order."""
    found: list[Manifest] = []
    for name in session.flags.texts("filename"):
        for source, data in _contents(session, name):
            for document in documents(data, source):
                if validate:
                    _check(document, source)
                found += [Manifest(obj, source) for obj in _flattened(document)]
    return found


def documents(data: bytes, source: str) -> Iterator[Object]:
    """Yield the objects of a text in JSON or YAML."""
    from rdd.api.decode import decode_yaml
    from rdd.api.errors import BadRequest

    if data.lstrip()[:1] == b"{":
        yield from _json_documents(data, source)
        return
    for part in _SEPARATOR.split(data):
        if not part.strip():
            continue
        try:
            value = decode_yaml(part).value
        except BadRequest as error:
            raise KubectlError(
                f"error parsing {source}: error converting YAML to JSON: {error}"
            ) from None
        if value is None:
            continue
        if not isinstance(value, dict):
            raise KubectlError(f"error parsing {source}: not an object")
        yield value


def _json_documents(data: bytes, source: str) -> Iterator[Object]:
    decoder = json.JSONDecoder()
    text = data.decode(errors="replace")
    at = 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        except ValueError as error:
            raise KubectlError(f"error parsing {source}: {error}") from None
        yield value
        at += len(text[at:]) - len(text[at:].lstrip())


def _flattened(obj: Object) -> Iterator[Object]:
    if str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
        for item in obj["items"]:
            yield from _flattened(item)
    else:
        yield obj


def _check(obj: Object, source: str) -> None:
    missing = [f"{key} not set" for key in ("apiVersion", "kind") if not obj.get(key)]
    if missing:
        text = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
        raise KubectlError(
            f'error validating "{source}": error validating data: {text}; if you choose to ignore'
            " these errors, turn validation off with --validate=false"
        )


def _contents(session: Session, name: str) -> Iterator[tuple[str, bytes]]:
    if name == "-":
        stream = getattr(session.stdin, "buffer", None)
        yield STDIN, stream.read() if stream else session.stdin.read().encode()
    elif name.startswith(("http://", "https://")):
        yield name, _download(name)
    else:
        path = Path(name)
        if not path.exists():
            raise KubectlError(f'the path "{name}" does not exist')
        if not path.is_dir():
            yield name, _read(path)
            return
        pattern = "**/*" if session.flags.truth("recursive") else "*"
        files = sorted(p for p in path.glob(pattern) if p.suffix in _EXTENSIONS and p.is_file())
        if not files:
            extensions = " ".join(_EXTENSIONS)
            raise KubectlError(
                f"error reading [{name}]: recognized file extensions are [{extensions}]"
            )
        for file in files:
            yield str(file), _read(file)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubectlError(f"open {path}: {(error.strerror or str(error)).lower()}") from None


def _download(url: str) -> bytes:
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=60) as response:
            data: bytes = response.read()
            return data
    except OSError as error:
        raise KubectlError(f"unable to read URL {json.dumps(url)}: {error}") from None
