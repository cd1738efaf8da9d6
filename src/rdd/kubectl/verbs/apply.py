# SPDX-License-Identifier: Apache-2.0
"""`apply -f`: create or update objects from a file.

Client-side (the default): a missing object is created with an annotation that
records what was applied; an existing one gets the three-way patch of
`threeway.py`. Server-side (`--server-side`): the server merges, by field
managers.
"""

import time

from rdd.api import names
from rdd.api.errors import ApiError
from rdd.api.mediatypes import APPLY_PATCH, JSON_PATCH
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.errors import FAILURES, KubectlError, VerbatimError, raise_all, within
from rdd.kubectl.flags import Verb
from rdd.kubectl.patches.diff import three_way
from rdd.kubectl.patches.lastapplied import annotated, last_applied
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref, fetch, manifest_references
from rdd.kubectl.session import Session, compact
from rdd.kubectl.writer import DRY_RUN, VALIDATE, Writer, from_source

CLIENT_SIDE = "kubectl-client-side-apply"
SERVER_SIDE = "kubectl"
_ANNOTATION_MANAGER = "kubectl-last-applied"
_MAX_ATTEMPTS = 5

VERB = Verb(
    "apply",
    "-f FILE [--server-side]",
    "Create or update objects from a file",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        DRY_RUN,
        VALIDATE,
        Flag("field-manager", "name of the manager of the applied fields"),
        Flag("force-conflicts", "take over fields of other managers", "bool"),
        Flag("overwrite", "overwrite changes of others", "bool", default="true"),
        Flag("server-side", "merge on the server", "bool"),
    ),
    unsupported=(
        *manifests.UNSUPPORTED,
        "all", "applyset", "cascade", "force", "grace-period", "openapi-patch", "prune",
        "prune-allowlist", "prune-whitelist", "selector", "timeout", "wait",
    ),
)  # fmt: skip
VERBS: dict[str, Verb] = {}
UNSUPPORTED = ("edit-last-applied", "set-last-applied", "view-last-applied")


def run(session: Session, _: str = "") -> None:
    flags = session.flags
    if not flags.texts("filename"):
        raise KubectlError("must specify one of -f and -k")
    if session.args:
        raise VerbatimError(
            f"error: Unexpected args: [{' '.join(session.args)}]\n"
            "See 'kubectl apply -h' for help and examples"
        )
    is_server_side = flags.truth("server-side")
    if flags.truth("force-conflicts") and not is_server_side:
        raise KubectlError("--force-conflicts only works with --server-side")
    if is_server_side and Writer(session).is_client_side:
        raise KubectlError(
            "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server"
            " instead?)"
        )
    refs, errors = manifest_references(session, verb="apply")
    applier: _ClientSide | _ServerSide
    applier = _ServerSide(session) if is_server_side else _ClientSide(session)
    for ref in refs:
        try:
            applier.apply(ref)
        except FAILURES as error:
            errors.append(error)
    applier.finish()
    raise_all(errors)


class _Applier:
    def __init__(self, session: Session, *, manager: str) -> None:
        self.session = session
        self.writer = Writer(session)
        name = session.flags.text("field-manager") or manager
        self.query = {**self.writer.query, "fieldManager": name}
        self._shown: list[Object] = []

    def report(self, ref: Ref, obj: Object, done: str) -> None:
        if self.writer.shows_objects:
            self._shown.append(obj)
        else:
            self.writer.report(obj, done)

    def finish(self) -> None:
        """Print whole objects together, several of them as one List."""
        if not self._shown:
            return
        show = output.printer(self.session.flags)
        obj = self._shown[0]
        if len(self._shown) > 1:
            obj = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": self._shown}
        self.session.out.write(show(obj))


class _ClientSide(_Applier):
    def __init__(self, session: Session) -> None:
        super().__init__(session, manager=CLIENT_SIDE)

    def apply(self, ref: Ref) -> None:
        modified = annotated(ref.object or {})
        if not ref.name:
            raise _unnamed(ref)
        try:
            current = fetch(self.session, ref)
        except ApiError as error:
            if error.reason != "NotFound":
                raise within(error, f"error when {_retrieving(ref)}") from None
            self.report(ref, self._create(ref, modified), "created")
            return
        if self.writer.is_client_side:
            self.report(ref, modified, "configured")
            return
        if last_applied(current) is None:
            self.session.warn(
                f"Warning: resource {ref.resource.plural}/{ref.name} is missing the "
                f"{names.LAST_APPLIED}"
                " annotation which is required by kubectl apply. kubectl apply should only be used"
                " on resources created declaratively by either kubectl create --save-config or"
                " kubectl apply. The missing annotation will be patched automatically."
            )
        patched = self._patch(ref, modified, current)
        if patched is None:
            self.report(ref, current, "unchanged")
        else:
            self.report(ref, patched, "configured")

    def _create(self, ref: Ref, obj: Object) -> Object:
        if self.writer.is_client_side:
            return obj
        path = ref.resource.path(ref.namespace)
        try:
            created: Object = self.session.api.request("POST", path, query=self.query, body=obj)
        except ApiError as error:
            raise from_source(error, "creating", ref) from None
        return created

    def _patch(self, ref: Ref, modified: Object, current: Object) -> Object | None:
        """Return the patched object; None if it is up to date."""
        for attempt in range(_MAX_ATTEMPTS):
            original = last_applied(current) or {}
            content_type, patch = three_way(self.session, ref.resource, original, modified, current)
            if not patch:
                return None
            try:
                patched: Object = self.session.api.request(
                    "PATCH", ref.path, query=self.query, body=patch, content_type=content_type
                )
                return patched
            except ApiError as error:
                if error.reason != "Conflict" or attempt == _MAX_ATTEMPTS - 1:
                    raise within(
                        error,
                        f"error when applying patch:\n{compact(patch)}\nto:\n{_described(ref)}\n"
                        f'for: "{ref.source}"',
                    ) from None
            time.sleep(attempt)  # another client writes the object: back off
            current = fetch(self.session, ref)
        raise AssertionError("the last attempt returned or raised")


class _ServerSide(_Applier):
    def __init__(self, session: Session) -> None:
        super().__init__(session, manager=SERVER_SIDE)
        if session.flags.truth("force-conflicts"):
            self.query["force"] = "true"

    def apply(self, ref: Ref) -> None:
        """Apply on the server and take over the fields of client-side apply."""
        if not ref.name:
            raise _unnamed(ref)
        obj = ref.object or {}
        applied = self._send(ref, obj, self.query)
        is_dry = "dryRun" in self.query
        if not is_dry and names.LAST_APPLIED in (applied["metadata"].get("annotations") or {}):
            applied = self._update_annotation(ref, obj)
        if not is_dry and (patch := migration(applied, manager=self.query["fieldManager"])):
            self.session.api.request("PATCH", ref.path, body=patch, content_type=JSON_PATCH)
            applied = self._send(ref, obj, self.query)
        self.report(ref, applied, "serverside-applied")

    def _update_annotation(self, ref: Ref, obj: Object) -> Object:
        """Update the annotation that a later client-side apply compares with."""
        metadata = annotated(obj)["metadata"]
        partial = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        annotations = {names.LAST_APPLIED: metadata["annotations"][names.LAST_APPLIED]}
        body = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {**partial, "annotations": annotations},
        }
        query = {**self.query, "fieldManager": _ANNOTATION_MANAGER, "force": "true"}
        return self._send(ref, body, query)

    def _send(self, ref: Ref, obj: Object, query: dict[str, str]) -> Object:
        try:
            applied: Object = self.session.api.request(
                "PATCH", ref.path, query=query, body=obj, content_type=APPLY_PATCH
            )
        except ApiError as error:
            if error.reason == "Conflict":
                raise KubectlError(f"{error.message}\n{_CONFLICT_ADVICE}") from None
            raise
        return applied


def migration(obj: Object, *, manager: str) -> list[Object]:
    """Return the JSON patch that moves fields of client-side apply to server-side apply.

    Without it, a field that is dropped from the file would stay, because its
    client-side manager still owns it.
    """
    metadata = obj.get("metadata") or {}
    entries: list[Object] = metadata.get("managedFields") or []
    theirs = [
        e
        for e in entries
        if e.get("manager") == CLIENT_SIDE
        and e.get("operation") == "Update"
        and not e.get("subresource")
    ]
    ours = [
        e
        for e in entries
        if e.get("manager") == manager
        and e.get("operation") == "Apply"
        and not e.get("subresource")
    ]
    if not theirs or not ours:
        return []
    fields: Object = ours[0].get("fieldsV1") or {}
    for entry in theirs:
        fields = _united(fields, entry.get("fieldsV1") or {})
    kept = [e for e in entries if e not in theirs and e is not ours[0]]
    merged = [*kept, {**ours[0], "fieldsV1": fields}]
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": merged},
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": metadata.get("resourceVersion", ""),
        },
    ]


def _united(a: Object, b: Object) -> Object:
    return {**a, **{key: _united(a.get(key) or {}, value) for key, value in b.items()}}


def _unnamed(ref: Ref) -> KubectlError:
    return KubectlError(f"error when {_retrieving(ref)}: resource name may not be empty")


def _retrieving(ref: Ref) -> str:
    return (
        f'retrieving current configuration of:\n{_described(ref)}\nfrom server for: "{ref.source}"'
    )


def _described(ref: Ref) -> str:
    r = ref.resource
    return (
        f'Resource: "{r.group}/{r.version}, Resource={r.plural}",'
        f' GroupVersionKind: "{r.group}/{r.version}, Kind={r.kind}"\n'
        f'Name: "{ref.name}", Namespace: "{ref.namespace}"'
    )


_CONFLICT_ADVICE = """\
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts"""
