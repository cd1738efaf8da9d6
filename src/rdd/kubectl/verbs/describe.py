# SPDX-License-Identifier: Apache-2.0
"""`describe`: show objects in detail, with their events.

The generic form shows all fields; namespaces, config maps and secrets have forms
of their own (`rdd.kubectl.printers.describers`).
"""

from rdd.api.errors import ApiError
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.errors import Failure, VerbatimError, raise_all
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers.describers import describe
from rdd.kubectl.selection import (
    ALL_NAMESPACES,
    SELECTOR,
    Ref,
    list_objects,
    ref_of,
    references,
)
from rdd.kubectl.session import Session

VERB = Verb(
    "describe",
    "(TYPE [NAME | NAME_PREFIX | -l LABELS] | TYPE/NAME | -f FILE)",
    "Show objects in detail, with their events",
    flags=(
        *manifests.FLAGS,
        SELECTOR,
        ALL_NAMESPACES,
        Flag("show-events", "show the events of each object", "bool", default="true"),
    ),
    unsupported=(*manifests.UNSUPPORTED, "chunk-size"),
)


def run(session: Session) -> None:
    if not session.args and not session.flags.texts("filename"):
        raise VerbatimError(
            'error: You must specify the type of resource to describe. Use "kubectl api-resources"'
            " for a complete list of supported resources."
        )
    found: list[Ref] = []
    errors: list[Failure] = []
    by_prefix = False
    refs = references(session)
    for ref in refs:
        try:
            if ref.name:
                found.append(ref._replace(object=session.api.get(ref.path)))
            else:
                found += _listed(session, ref)
        except ApiError as error:
            matching = _with_prefix(session, ref) if error.reason == "NotFound" else []
            by_prefix = by_prefix or bool(matching)
            found += matching
            if not matching:
                errors.append(error)
    texts = [describe(session, ref) for ref in found]
    session.out.write("\n\n".join(texts))
    if by_prefix:
        session.print("")
    if not found and not errors:
        where = f" in {session.namespace} namespace."
        is_namespaced = any(ref.resource.namespaced for ref in refs)
        in_one = is_namespaced and not session.flags.truth("all-namespaces")
        session.warn(f"No resources found{where if in_one else ''}")
    raise_all(errors)


def _listed(session: Session, ref: Ref) -> list[Ref]:
    return [ref_of(ref.resource, item) for item in list_objects(session, ref).get("items") or ()]


def _with_prefix(session: Session, ref: Ref) -> list[Ref]:
    collection = ref._replace(name="")
    return [r for r in _listed(session, collection) if r.name.startswith(ref.name)]
