# SPDX-License-Identifier: Apache-2.0
"""`create -f FILE` and `create KIND NAME …`.

The kinds that can be created from arguments are in `rdd.kubectl.generators`, with
one function each that turns flags into an object.
"""

from rdd.api.errors import ApiError
from rdd.base.pflag import Flag
from rdd.kubectl import generators, manifests
from rdd.kubectl.errors import KubectlError, VerbatimError, raise_all
from rdd.kubectl.flags import Verb
from rdd.kubectl.patches.lastapplied import annotated
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref, for_each, from_manifest, manifest_references
from rdd.kubectl.session import Session
from rdd.kubectl.writer import DRY_RUN, VALIDATE, Writer, manager

_WRITING = (
    *output.FLAGS,
    DRY_RUN,
    VALIDATE,
    manager("kubectl-create"),
    Flag("save-config", "save the configuration in an annotation, for apply", "bool"),
)

VERB = Verb(
    "create",
    "-f FILE | KIND NAME …",
    "Create objects from a file or from arguments",
    flags=(*manifests.FLAGS, *_WRITING),
    unsupported=(*manifests.UNSUPPORTED, "edit", "raw", "selector", "windows-line-endings"),
)
VERBS: dict[str, Verb] = {
    g.name: Verb(
        g.name,
        g.usage,
        g.summary,
        flags=(*g.flags, *(_WRITING if g.name != "token" else ())),
        unsupported=g.unsupported,
    )
    for g in generators.ALL
}
NESTED = {
    "secret": {
        name.removeprefix("secret "): verb
        for name, verb in VERBS.items()
        if name.startswith("secret ")
    }
}
VERBS["secret"] = Verb("secret", "generic|tls|docker-registry NAME …", "Create a Secret")
ALIASES = {"ns": "namespace", "cm": "configmap", "sa": "serviceaccount", "deploy": "deployment"}
UNSUPPORTED = (
    "cronjob", "ingress", "job", "poddisruptionbudget", "priorityclass", "quota", "service",
)  # fmt: skip


def run(session: Session, kind: str = "") -> None:
    if not kind:
        _from_files(session)
    elif kind == "token":
        from rdd.kubectl.tokens import create_token

        create_token(session)
    else:
        _from_arguments(session, generators.find(kind))


def _from_files(session: Session) -> None:
    if not session.flags.texts("filename"):
        if session.args:
            raise VerbatimError(
                f"error: Unexpected args: [{' '.join(session.args)}]\n"
                "See 'kubectl create -h' for help and examples"
            )
        raise KubectlError("must specify one of -f and -k")
    refs, errors = manifest_references(session, verb="create")
    writer = Writer(session)

    def create(ref: Ref) -> None:
        obj = ref.object or {}
        if session.flags.truth("save-config"):
            obj = annotated(obj)
        writer.report(writer.create(ref, obj), "created")

    for_each(refs, create)
    raise_all(errors)


def _from_arguments(session: Session, generator: generators.Generator) -> None:
    obj = generator.make(session)
    if session.flags.truth("save-config"):
        obj = annotated(obj)
    writer = Writer(session)
    if writer.is_client_side:
        writer.report(obj, "created")
        return
    if session.resources.by_kind(obj["apiVersion"], obj["kind"]) is None:
        raise KubectlError(f"{generator.failure}the server could not find the requested resource")
    ref = from_manifest(session, manifests.Manifest(obj, ""))
    try:
        created = writer.create(ref, ref.object or {})
    except ApiError as error:
        if generator.failure:
            raise KubectlError(f"{generator.failure}{error.message}") from None
        raise
    writer.report(created, "created")
