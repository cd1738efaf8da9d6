# SPDX-License-Identifier: Apache-2.0
"""`patch`: change fields of an object with a JSON, merge or strategic merge patch."""

import json
from pathlib import Path
from typing import Any

from rdd.api.errors import ApiError
from rdd.api.mediatypes import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.errors import KubectlError, unsupported
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref, for_each, references, require_arguments
from rdd.kubectl.session import Session
from rdd.kubectl.writer import DRY_RUN, Writer, manager

_TYPES = {"json": JSON_PATCH, "merge": MERGE_PATCH, "strategic": STRATEGIC_MERGE_PATCH}

VERB = Verb(
    "patch",
    "(TYPE NAME | TYPE/NAME | -f FILE) [-p PATCH | --patch-file FILE]",
    "Change fields of an object",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        DRY_RUN,
        manager("kubectl-patch"),
        Flag("patch", "the patch, in JSON or YAML", short="p"),
        Flag("patch-file", "file with the patch"),
        Flag("subresource", "subresource to patch: status, scale"),
        Flag("type", "json, merge or strategic", default="strategic"),
    ),
    unsupported=(*manifests.UNSUPPORTED, "local"),
)


def run(session: Session) -> None:
    kind = session.flags.text("type").lower()
    if kind not in _TYPES:
        raise KubectlError(f'--type must be one of [json merge strategic], not "{kind}"')
    patch = _patch(session)
    require_arguments(session)
    refs = references(session)
    if any(not ref.name for ref in refs):
        raise KubectlError("resource(s) were provided, but no name was specified")
    writer = Writer(session)
    for_each(refs, lambda ref: _apply(session, ref, writer, kind, patch))


def _patch(session: Session) -> bytes:
    """Return the patch as JSON; the server validates texts that look like JSON."""
    text, name = session.flags.text("patch"), session.flags.text("patch-file")
    if text and name:
        raise KubectlError("cannot specify --patch and --patch-file together")
    if name == "-":
        text = session.stdin.read()
    elif name:
        try:
            text = Path(name).read_text()
        except OSError as error:
            raise KubectlError(
                f"unable to read patch file: open {name}: {(error.strerror or '').lower()}"
            ) from None
    if not text:
        raise KubectlError(
            "must specify --patch or --patch-file containing the contents of the patch"
        )
    if text.lstrip().startswith(("{", "[")):
        return text.encode()
    from rdd.api.decode import decode_yaml
    from rdd.api.errors import BadRequest

    try:
        return json.dumps(decode_yaml(text.encode()).value).encode()
    except BadRequest as error:
        raise KubectlError(f'unable to parse "{text}": {error}') from None


def _apply(session: Session, ref: Ref, writer: Writer, kind: str, patch: bytes) -> None:
    path = ref.sub(session.flags.text("subresource"))
    before: Object = session.api.get(path)
    if writer.is_client_side:
        after = _locally(kind, patch, before)
    else:
        try:
            after = session.api.request(
                "PATCH", path, query=writer.query, body=patch, content_type=_TYPES[kind]
            )
        except ApiError as error:
            if error.reason != "UnsupportedMediaType":
                raise
            what = f"{ref.resource.api_version}, Kind={ref.resource.kind}"
            raise KubectlError(f"{_TYPES[kind]} is not supported by {what}: {error}") from None
    # As in kubectl, the line does not mention a dry run.
    if writer.shows_objects:
        writer.report(after, "")
    else:
        session.print(f"{ref.printed} patched{'' if before != after else ' (no change)'}")


def _locally(kind: str, patch: bytes, obj: Object) -> Object:
    from rdd.api.jsonpatch import apply_json_patch
    from rdd.api.mergepatch import apply_merge_patch

    try:
        value = json.loads(patch)
    except ValueError as error:
        raise KubectlError(f"unable to parse the patch: {error}") from None
    if kind == "strategic" and _has_lists(value):
        raise unsupported("--dry-run=client with a strategic merge patch of lists")
    apply = apply_json_patch if kind == "json" else apply_merge_patch
    try:
        patched: Object = apply(obj, value)
    except ApiError as error:
        raise KubectlError(f"unable to apply the patch: {error}") from None
    return patched


def _has_lists(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_lists, value.values()))
    return isinstance(value, list)
