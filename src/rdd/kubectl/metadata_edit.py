# SPDX-License-Identifier: Apache-2.0
"""`label` and `annotate`: set and remove entries of a map in the metadata of objects."""

from typing import NamedTuple

from rdd.api import name_validation
from rdd.api.mediatypes import MERGE_PATCH
from rdd.api.mergepatch import create_merge_patch
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.printers import output
from rdd.kubectl.selection import (
    ALL,
    ALL_NAMESPACES,
    FIELD_SELECTOR,
    SELECTOR,
    Ref,
    fetch,
    for_each,
    objects,
    references,
)
from rdd.kubectl.session import Session, compact
from rdd.kubectl.writer import DRY_RUN, Writer, manager


class MetadataMap(NamedTuple):
    """Labels or annotations."""

    noun: str  # label
    member: str  # labels


LABELS = MetadataMap("label", "labels")
ANNOTATIONS = MetadataMap("annotation", "annotations")


def flags(verb: str) -> tuple[Flag, ...]:
    """Return the flags of `label` or `annotate`."""
    return (
        *output.FLAGS,
        *manifests.FLAGS,
        SELECTOR,
        FIELD_SELECTOR,
        ALL,
        ALL_NAMESPACES,
        DRY_RUN,
        manager(f"kubectl-{verb}"),
        Flag("list", "list the entries", "bool"),
        Flag("overwrite", "overwrite existing values", "bool"),
        Flag("resource-version", "only change the object at this resource version"),
    )


class _Changes(NamedTuple):
    set: dict[str, str]
    removed: list[str]


def run(session: Session, kind: MetadataMap) -> None:
    """Change the entries of the selected objects."""
    words, pairs = _split(session.args, kind)
    changes = _parse(pairs, kind)
    flags = session.flags
    if not changes.set and not changes.removed and not flags.truth("list"):
        raise KubectlError(f"at least one {kind.noun} update is required")
    refs = references(session, words)
    if not refs:
        raise KubectlError("one or more resources must be specified as <resource> <name> or -f")
    selects = flags.text("selector") or flags.text("field-selector") or flags.truth("all")
    if not selects and any(not ref.name for ref in refs):
        raise KubectlError("resource(s) were provided, but no name was specified")
    writer = Writer(session)
    found = objects(session, refs)
    for_each(found, lambda ref: _change(session, ref, kind, changes, writer, len(found) > 1))


def _split(args: list[str], kind: MetadataMap) -> tuple[list[str], list[str]]:
    words: list[str] = []
    pairs: list[str] = []
    for arg in args:
        if ("=" in arg and arg[0] != "=") or (arg.endswith("-") and arg != "-"):
            pairs.append(arg)
        elif pairs:
            raise KubectlError(f"all resources must be specified before {kind.noun} changes: {arg}")
        else:
            words.append(arg)
    return words, pairs


def _parse(pairs: list[str], kind: MetadataMap) -> _Changes:
    changes = _Changes({}, [])
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            changes.removed.append(pair[:-1])
            continue
        if kind is LABELS and (problems := name_validation.label_value_errors(value)):
            raise KubectlError(f'invalid label value: "{pair}": {"; ".join(problems)}')
        changes.set[key] = value
    if both := sorted(set(changes.removed) & set(changes.set)):
        what = "a label"
        if kind is ANNOTATIONS:
            what = "the following annotation(s)"
        suffix = f": {', '.join(both)}" if kind is ANNOTATIONS else ""
        raise KubectlError(f"can not both modify and remove {what} in the same command{suffix}")
    return changes


def _change(
    session: Session,
    ref: Ref,
    kind: MetadataMap,
    changes: _Changes,
    writer: Writer,
    is_one_of_many: bool,
) -> None:
    current = ref.object if ref.object and not ref.source else fetch(session, ref)
    entries = dict((current.get("metadata") or {}).get(kind.member) or {})
    if session.flags.truth("list"):
        _list(session, ref, kind, entries, is_one_of_many)
        return
    _check_overwrite(session, kind, changes, entries)
    for key in changes.removed:
        if key not in entries and kind is LABELS:
            session.print(f'label "{key}" not found.')
        entries.pop(key, None)
    entries.update(changes.set)
    metadata = {**current["metadata"], kind.member: entries}
    if version := session.flags.text("resource-version"):
        metadata["resourceVersion"] = version
    changed = {**current, "metadata": metadata}
    done = _done(session, kind, current, changed)
    patch = create_merge_patch(current, changed)
    if writer.is_client_side or not patch:
        writer.report(changed, done)
        return
    patched = session.api.request(
        "PATCH", ref.path, query=writer.query, body=patch, content_type=MERGE_PATCH
    )
    writer.report(patched, done)


def _check_overwrite(
    session: Session, kind: MetadataMap, changes: _Changes, entries: dict[str, str]
) -> None:
    if session.flags.truth("overwrite"):
        return
    taken = [
        f"'{key}' already has a value ({entries[key]})"
        for key, value in changes.set.items()
        if key in entries and entries[key] != value
    ]
    if not taken:
        return
    if kind is LABELS:
        raise KubectlError(f"{taken[0]}, and --overwrite is false")
    raise KubectlError(
        "--overwrite is false but found the following declared annotation(s): " + "; ".join(taken)
    )


def _done(session: Session, kind: MetadataMap, current: Object, changed: Object) -> str:
    if kind is ANNOTATIONS:
        return "annotated"
    before, after = compact(current), compact(changed)
    if before == after:
        return "not labeled"
    is_shorter = len(after) < len(before)
    return "unlabeled" if is_shorter and not session.flags.truth("overwrite") else "labeled"


def _list(
    session: Session, ref: Ref, kind: MetadataMap, entries: dict[str, str], is_one_of_many: bool
) -> None:
    indent = ""
    if is_one_of_many:
        indent = " "
        group = f".{ref.resource.group}"
        session.print(f"Listing {kind.member} for {ref.resource.kind}{group}/{ref.name}:")
    session.print(*(f"{indent}{key}={entries[key]}" for key in sorted(entries)))
