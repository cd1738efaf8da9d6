# SPDX-License-Identifier: Apache-2.0
"""`edit`: change objects in an editor.

The objects are written to a file as YAML; the saved file is compared with it and
the difference is sent as a patch. If the server rejects the patch, the editor
opens again with the reason on top, until the file is saved unchanged; then a copy
of the text stays on disk.
"""

import os
import shlex
import tempfile
from pathlib import Path

from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.host.spawn import run_foreground
from rdd.kubectl import manifests
from rdd.kubectl.errors import Failure, KubectlError, VerbatimError, message_of
from rdd.kubectl.flags import Verb
from rdd.kubectl.patches.diff import two_way
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref, fetch, references, require_arguments
from rdd.kubectl.session import Session
from rdd.kubectl.writer import VALIDATE, Writer, manager

VERB = Verb(
    "edit",
    "(TYPE NAME… | TYPE/NAME… | -f FILE)",
    "Change objects in an editor",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        VALIDATE,
        manager("kubectl-edit"),
        Flag("subresource", "subresource to edit: status, scale"),
    ),
    unsupported=(*manifests.UNSUPPORTED, "output-patch", "save-config", "windows-line-endings"),
)
_HEADER = """\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
"""


def run(session: Session) -> None:
    """Edit the selected objects in one file."""
    require_arguments(session)
    refs = [ref._replace(object=None) for ref in references(session)]
    if any(not ref.name for ref in refs):
        raise KubectlError("resource(s) were provided, but no name was specified")
    writer = Writer(session)
    originals = [_shown(session, fetch(session, ref)) for ref in refs]
    text = _HEADER + _document(originals)
    problems: list[Failure] = []
    while True:
        edited = _edit(session, text)
        if not _content(edited):
            raise VerbatimError("Edit cancelled, saved file was empty.")
        if _content(edited) == _content(text):
            if problems:
                path = _keep(edited)
                raise KubectlError(
                    f"Edit cancelled, no valid changes were saved; a copy is in {path}"
                )
            session.warn("Edit cancelled, no changes made.")
            return
        problems = _save(session, writer, refs, originals, edited)
        if not problems:
            return
        session.warn("\n".join(message_of(problem) for problem in problems))
        notes = "".join(f"# {line}\n" for p in problems for line in message_of(p).splitlines())
        text = f"{_HEADER}{notes}#\n{_content(edited)}"


def _shown(session: Session, obj: Object) -> Object:
    return obj if session.flags.truth("show-managed-fields") else output.without_managed_fields(obj)


def _document(objects: list[Object]) -> str:
    if len(objects) == 1:
        return output.yaml_text(objects[0])
    return output.yaml_text({"apiVersion": "v1", "kind": "List", "items": objects})


def _content(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return "\n".join(lines).strip() + "\n" if any(line.strip() for line in lines) else ""


def _edit(session: Session, text: str) -> str:
    variables = session.variables
    editor = variables.get("KUBE_EDITOR") or variables.get("EDITOR") or "vi"
    descriptor, name = tempfile.mkstemp(prefix="kubectl-edit-", suffix=".yaml")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        try:
            status = run_foreground([*shlex.split(editor), name])
        except OSError as error:
            raise KubectlError(
                f'unable to launch the editor "{editor}": {error.strerror}'
            ) from None
        if status:
            raise KubectlError(f'there was a problem with the editor "{editor}"')
        return Path(name).read_text()
    finally:
        Path(name).unlink(missing_ok=True)


def _keep(text: str) -> str:
    descriptor, name = tempfile.mkstemp(prefix="kubectl-edit-", suffix=".yaml")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return name


def _save(
    session: Session, writer: Writer, refs: list[Ref], originals: list[Object], text: str
) -> list[Failure]:
    """Send the changes and return the failures."""
    try:
        edited = [
            item
            for document in manifests.documents(_content(text).encode(), "edited file")
            for item in (document["items"] if document.get("kind") == "List" else [document])
        ]
        by_name = {_identity(obj): obj for obj in edited}
        for original in originals:
            if _identity(original) not in by_name:
                raise KubectlError("kind, name and namespace of an object cannot be changed")
    except KubectlError as error:
        return [error]
    problems: list[Failure] = []
    for index, ref in enumerate(refs):
        changed = by_name[_identity(originals[index])]
        content_type, patch = two_way(session, ref.resource, originals[index], changed)
        if not patch:
            session.print(f"{ref.printed} skipped")
            continue
        try:
            patched = session.api.request(
                "PATCH",
                ref.sub(session.flags.text("subresource")),
                query=writer.query,
                body=patch,
                content_type=content_type,
            )
            originals[index] = _shown(session, patched)
            writer.report(patched, "edited")
        except ApiError as error:
            problems.append(error)
    return problems


def _identity(obj: Object) -> tuple[str, str, str, str]:
    metadata = obj.get("metadata") or {}
    return (
        str(obj.get("apiVersion")),
        str(obj.get("kind")),
        str(metadata.get("namespace", "")),
        str(metadata.get("name")),
    )
