# SPDX-License-Identifier: Apache-2.0
"""`replace -f`: replace whole objects."""

from rdd.api import names
from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.deletion import BatchDeletion
from rdd.kubectl.errors import KubectlError, raise_all
from rdd.kubectl.flags import Verb
from rdd.kubectl.patches.lastapplied import annotated
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref, fetch, for_each, manifest_references
from rdd.kubectl.session import Session
from rdd.kubectl.writer import DRY_RUN, VALIDATE, Writer, from_source, manager

VERB = Verb(
    "replace",
    "-f FILE [--force]",
    "Replace objects with those of a file",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        DRY_RUN,
        VALIDATE,
        manager("kubectl-replace"),
        Flag("force", "delete and re-create", "bool"),
        Flag("grace-period", "grace period in seconds, with --force", "int", default="-1"),
        Flag(
            "timeout",
            "maximum time to wait, with --force",
            "duration",
            default="0",
        ),
        Flag("save-config", "save the configuration in an annotation, for apply", "bool"),
        Flag("subresource", "subresource to replace: status, scale"),
    ),
    unsupported=(*manifests.UNSUPPORTED, "cascade", "raw", "wait"),
)


def run(session: Session) -> None:
    if not session.flags.texts("filename"):
        raise KubectlError("must specify one of -f and -k")
    refs, errors = manifest_references(session, verb="replace")
    writer = Writer(session)
    if session.flags.truth("force"):
        _recreate(session, refs, writer)
    else:
        for_each(refs, lambda ref: _replace(session, ref, writer))
    raise_all(errors)


def _replace(session: Session, ref: Ref, writer: Writer) -> None:
    obj = ref.object or {}
    if not ref.name:
        raise KubectlError("resource name may not be empty")
    if writer.is_client_side:
        writer.report(obj, "replaced")
        return
    try:
        replaced = session.api.request(
            "PUT",
            ref.sub(session.flags.text("subresource")),
            query=writer.query,
            body=_prepared(session, ref, obj),
        )
    except ApiError as error:
        raise from_source(error, "replacing", ref) from None
    writer.report(replaced, "replaced")


def _prepared(session: Session, ref: Ref, obj: Object) -> Object:
    """Add the annotation of apply (if the flag or the file has it) and a resource version."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if session.flags.truth("save-config") or names.LAST_APPLIED in annotations:
        obj = annotated(obj)
    if (obj.get("metadata") or {}).get("resourceVersion"):
        return obj
    current = fetch(session, ref)
    version = current["metadata"].get("resourceVersion", "")
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}


def _recreate(session: Session, refs: list[Ref], writer: Writer) -> None:
    if writer.dry_run != "none":
        raise KubectlError("--dry-run can not be used when --force is set")
    deletion = BatchDeletion(session, cascade="background", ignores_missing=True)
    for ref in refs:
        deletion.delete_one(ref)
    deletion.wait(session.flags.seconds("timeout"))
    for ref in refs:
        writer.report(writer.create(ref, ref.object or {}), "replaced")
