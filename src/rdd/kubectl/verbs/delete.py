# SPDX-License-Identifier: Apache-2.0
"""`delete`: delete objects and wait until they are gone."""

from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.deletion import BatchDeletion
from rdd.kubectl.errors import FAILURES, Failure, KubectlError, raise_all, unsupported
from rdd.kubectl.flags import Verb
from rdd.kubectl.selection import (
    ALL,
    ALL_NAMESPACES,
    FIELD_SELECTOR,
    SELECTOR,
    Ref,
    manifest_references,
    objects,
    printed_kind,
    references,
    require_arguments,
)
from rdd.kubectl.session import Session
from rdd.kubectl.writer import DRY_RUN, DRY_RUN_SUFFIX, parse_dry_run

VERB = Verb(
    "delete",
    "(-f FILE | TYPE NAME… | TYPE/NAME… | TYPE -l LABELS | TYPE --all)",
    "Delete objects",
    flags=(
        *manifests.FLAGS,
        SELECTOR,
        FIELD_SELECTOR,
        ALL,
        ALL_NAMESPACES,
        DRY_RUN,
        Flag(
            "cascade",
            "deletion of dependents: background, orphan or foreground",
            default="background",
            implied="background",
        ),
        Flag("force", "delete immediately, without a grace period", "bool"),
        Flag("grace-period", "grace period in seconds", "int", default="-1"),
        Flag("ignore-not-found", "ignore missing objects", "bool"),
        Flag("now", "the same as --grace-period=1", "bool"),
        Flag("output", "name: print only names", short="o"),
        Flag("timeout", "maximum time to wait; 0 means no limit", "duration", default="0"),
        Flag("wait", "wait until the objects are gone", "bool", default="true"),
    ),
    unsupported=(*manifests.UNSUPPORTED, "interactive", "raw"),
)


def run(session: Session) -> None:
    flags = session.flags
    _check(session)
    errors: list[Failure] = []
    selects = bool(flags.text("selector") or flags.text("field-selector")) or flags.truth("all")
    if flags.texts("filename"):
        refs, errors = manifest_references(session, verb="delete")
    else:
        refs = references(session)
        if not selects and any(not ref.name for ref in refs):
            raise KubectlError("resource(s) were provided, but no name was specified")
        refs = objects(session, refs)
    dry_run = parse_dry_run(session)
    is_lenient = flags.truth("ignore-not-found") or flags.truth("all")
    deletion = BatchDeletion(
        session,
        cascade=_cascade(flags.text("cascade")),
        grace_period=_grace_period(session),
        dry_run=dry_run,
        ignores_missing=is_lenient,
    )
    deleted = 0
    for ref in refs:
        try:
            if deletion.delete_one(ref):
                deleted += 1
                _report(session, ref, dry_run)
        except FAILURES as error:
            errors.append(error)
    raise_all(errors)
    if not deleted and not is_lenient:
        session.print("No resources found")
    if deleted and flags.truth("wait") and dry_run == "none":
        session.out.flush()
        deletion.wait(flags.seconds("timeout"))


def _check(session: Session) -> None:
    flags = session.flags
    if flags.text("output") not in ("", "name"):
        raise KubectlError(
            f"unexpected -o output mode: {flags.text('output')}. We only support '-o name'"
        )
    if flags.truth("all") and flags.text("selector"):
        raise KubectlError("setting 'all' parameter but found a non empty selector. ")
    if flags.truth("now") and "grace-period" in flags.given:
        raise KubectlError("--now and --grace-period cannot be specified together")
    if flags.truth("force") and flags.integer("grace-period") > 0:
        raise KubectlError("--force and --grace-period greater than 0 cannot be specified together")
    if flags.texts("filename") and flags.text("selector"):
        raise unsupported("--selector together with --filename")
    require_arguments(session)
    if flags.truth("force"):
        session.warn(
            "Warning: Immediate deletion does not wait for confirmation that the running resource"
            " has been terminated. The resource may continue to run on the cluster indefinitely."
        )


def _grace_period(session: Session) -> int:
    flags = session.flags
    if flags.truth("now"):
        return 1
    period = flags.integer("grace-period")
    if flags.truth("force"):
        return 0
    # Without --force, processes get at least 1 s to terminate.
    return 1 if period == 0 else period


def _cascade(text: str) -> str:
    aliases = {"true": "background", "false": "orphan"}
    value = aliases.get(text, text)
    if value not in ("background", "orphan", "foreground"):
        raise KubectlError(
            f'invalid cascade value ({text}). Must be "background", "foreground", or "orphan"'
        )
    return value


def _report(session: Session, ref: Ref, dry_run: str) -> None:
    kind = printed_kind(ref.resource)
    if session.flags.text("output") == "name":
        session.print(f"{kind}/{ref.name}")
        return
    done = "force deleted" if session.flags.truth("force") else "deleted"
    where = f" from {ref.namespace} namespace" if ref.namespace else ""
    session.print(f'{kind} "{ref.name}" {done}{where}{DRY_RUN_SUFFIX[dry_run]}')
