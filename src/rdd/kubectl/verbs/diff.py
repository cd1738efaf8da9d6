# SPDX-License-Identifier: Apache-2.0
"""`diff -f`: show what apply would change, as a unified diff.

A dry run on the server computes the result; `diff -u -N` (or the program in
KUBECTL_EXTERNAL_DIFF) compares it with the current state. Exit code 0: no
difference, 1: some, above: failure.
"""

import tempfile
from pathlib import Path

from rdd.api.errors import ApiError
from rdd.api.mediatypes import APPLY_PATCH
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.host.spawn import run_captured
from rdd.kubectl import manifests
from rdd.kubectl.errors import ExitWithCode, KubectlError, VerbatimError, raise_all
from rdd.kubectl.flags import Verb
from rdd.kubectl.patches.diff import three_way
from rdd.kubectl.patches.lastapplied import last_applied, without_annotation
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref, fetch, manifest_references
from rdd.kubectl.session import Session
from rdd.kubectl.verbs.apply import CLIENT_SIDE, SERVER_SIDE

_HIDDEN = "***"

VERB = Verb(
    "diff",
    "-f FILE [--server-side]",
    "Show what apply would change",
    flags=(
        *manifests.FLAGS,
        Flag("field-manager", "name of the manager of the applied fields"),
        Flag("force-conflicts", "take over fields of other managers", "bool"),
        Flag("server-side", "merge on the server", "bool"),
        Flag("show-managed-fields", "include managedFields", "bool"),
    ),
    unsupported=(*manifests.UNSUPPORTED, "concurrency", "prune", "prune-allowlist", "selector"),
)


class _DiffError(KubectlError):
    exit_code = 2


def run(session: Session) -> None:
    """Compare. Raises ExitWithCode(1) if anything differs."""
    if not session.flags.texts("filename"):
        raise KubectlError("must specify one of -f and -k")
    if session.args:
        raise VerbatimError(
            f"error: Unexpected args: [{' '.join(session.args)}]\n"
            "See 'kubectl diff -h' for help and examples"
        )
    refs, errors = manifest_references(session, verb="diff")
    raise_all(errors)
    with (
        tempfile.TemporaryDirectory(prefix="LIVE-") as live,
        tempfile.TemporaryDirectory(prefix="MERGED-") as merged,
    ):
        for ref in refs:
            before, after = _states(session, ref)
            name = f"{ref.resource.api_version.replace('/', '.')}.{ref.resource.kind}"
            name += f".{ref.namespace}.{ref.name}".replace("/", "-")
            before, after = _masked(before, after)
            for directory, state in ((live, before), (merged, after)):
                if state is not None:
                    Path(directory, name).write_text(output.yaml_text(state))
        _compare(session, live, merged)


def _states(session: Session, ref: Ref) -> tuple[Object | None, Object]:
    try:
        current: Object | None = fetch(session, ref)
    except ApiError as error:
        if error.reason != "NotFound":
            raise
        current = None
    after = _result(session, ref, current)
    if session.flags.truth("show-managed-fields"):
        return current, after
    before = output.without_managed_fields(current) if current is not None else None
    return before, output.without_managed_fields(after)


def _result(session: Session, ref: Ref, current: Object | None) -> Object:
    flags = session.flags
    obj = ref.object or {}
    is_server_side = flags.truth("server-side")
    default = SERVER_SIDE if is_server_side else CLIENT_SIDE
    query = {"dryRun": "All", "fieldManager": flags.text("field-manager") or default}
    request = session.api.request
    if is_server_side:
        query["force"] = "true" if flags.truth("force-conflicts") else "false"
        applied: Object = request(
            "PATCH", ref.path, query=query, body=obj, content_type=APPLY_PATCH
        )
        return applied
    if current is None:
        path = ref.resource.path(ref.namespace)
        created: Object = request("POST", path, query=query, body=obj)
        return created
    modified = without_annotation(obj)
    original = last_applied(current) or {}
    content_type, patch = three_way(session, ref.resource, original, modified, current)
    if not patch:
        return current
    patched: Object = request("PATCH", ref.path, query=query, body=patch, content_type=content_type)
    return patched


def _masked(before: Object | None, after: Object) -> tuple[Object | None, Object]:
    """Mask the values of secrets; only changes are visible."""
    if after.get("kind") != "Secret" or after.get("apiVersion") != "v1":
        return before, after
    old, new = (before or {}).get("data") or {}, after.get("data") or {}
    shown_old = {
        k: f"{_HIDDEN} (before)" if k in new and new[k] != v else _HIDDEN for k, v in old.items()
    }
    shown_new = {
        k: f"{_HIDDEN} (after)" if k in old and old[k] != v else _HIDDEN for k, v in new.items()
    }
    masked = {**before, "data": shown_old} if before is not None else None
    return masked, {**after, "data": shown_new}


def _compare(session: Session, live: str, merged: str) -> None:
    command = session.variables.get("KUBECTL_EXTERNAL_DIFF", "").split() or ["diff", "-u", "-N"]
    try:
        done = run_captured([*command, live, merged])
    except OSError as error:
        raise _DiffError(
            f'failed to run "{command[0]}": {(error.strerror or "").lower()}'
        ) from None
    session.out.write(done.stdout)
    if done.stderr:
        session.err.write(done.stderr)
    if done.returncode:
        raise ExitWithCode(done.returncode)
