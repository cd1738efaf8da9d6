# SPDX-License-Identifier: Apache-2.0
"""Loading of objects from files, directories and dicts.

A directory is read recursively in the order of file names, a file may contain
any number of YAML or JSON documents, a `List` is replaced by its items. Numbers
and timestamps keep the form they have in JSON: YAML dates stay text, as in
kubectl.
"""

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from rdd.api.types import Object

Source = str | PathLike[str] | Mapping[str, Any]
"""A file, a directory, or an object."""

_SUFFIXES = (".yaml", ".yml", ".json")


class ManifestError(ValueError):
    """A manifest that cannot be read or is invalid."""


class _Loader(yaml.CSafeLoader):
    """A YAML loader that reads dates as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load(sources: Iterable[Source]) -> list[Object]:
    """Return all objects of the sources, in order; raise ManifestError."""
    return [obj for source in sources for obj in _objects(source)]


def load_crds(sources: Iterable[Source]) -> list[Object]:
    """Return the CustomResourceDefinitions of the sources; raise ManifestError for one without.

    Other objects are ignored: a directory of CRDs often contains a kustomization.
    """
    found = []
    for source in sources:
        crds = [obj for obj in _objects(source) if obj["kind"] == "CustomResourceDefinition"]
        if not crds:
            raise ManifestError(f"{_name(source)}: contains no CustomResourceDefinition")
        found += crds
    return found


def _objects(source: Source) -> Iterator[Object]:
    if isinstance(source, Mapping):
        yield from _flat(dict(source), "object")
        return
    path = Path(source)
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file()):
            yield from _in_file(file)
    else:
        yield from _in_file(path)


def _in_file(path: Path) -> Iterator[Object]:
    try:
        documents = list(yaml.load_all(path.read_bytes(), Loader=_Loader))
    except OSError as e:
        raise ManifestError(f"{path}: {e.strerror}") from e
    except yaml.YAMLError as e:
        raise ManifestError(f"{path}: {e}") from e
    for document in documents:
        if document is not None:
            yield from _flat(document, str(path))


def _flat(document: Any, where: str) -> Iterator[Object]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{where}: a document is not a Kubernetes object: it has no kind")
    if document["kind"] == "List":
        for item in document.get("items") or ():
            yield from _flat(item, where)
    else:
        yield document


def _name(source: Source) -> str:
    return "object" if isinstance(source, Mapping) else str(source)
