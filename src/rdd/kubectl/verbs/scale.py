# SPDX-License-Identifier: Apache-2.0
"""`scale --replicas=N`: change the number of replicas through the scale subresource."""

from rdd.api.mediatypes import MERGE_PATCH
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.selection import (
    ALL,
    SELECTOR,
    Ref,
    for_each,
    objects,
    references,
    require_arguments,
)
from rdd.kubectl.session import Session
from rdd.kubectl.writer import DRY_RUN, Writer

VERB = Verb(
    "scale",
    "--replicas=N (TYPE NAME… | TYPE/NAME… | -f FILE)",
    "Change the number of replicas",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        ALL,
        SELECTOR,
        DRY_RUN,
        Flag("current-replicas", "only scale if this is the current number", "int", default="-1"),
        Flag("replicas", "new number of replicas", "int", default="0"),
        Flag("resource-version", "only scale the object at this resource version"),
    ),
    unsupported=(*manifests.UNSUPPORTED, "timeout"),
)


def run(session: Session) -> None:
    if "replicas" not in session.flags.given:
        raise KubectlError('required flag(s) "replicas" not set')
    if session.flags.integer("replicas") < 0:
        raise KubectlError(
            "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0"
        )
    require_arguments(session)
    writer = Writer(session)
    found = objects(session, references(session))
    if not found:
        raise KubectlError("no objects passed to scale")
    for_each(found, lambda ref: _scale(session, ref, writer))


def _scale(session: Session, ref: Ref, writer: Writer) -> None:
    flags = session.flags
    path = ref.sub("scale")
    current = session.api.get(path)
    expected, version = flags.integer("current-replicas"), flags.text("resource-version")
    actual = (current.get("spec") or {}).get("replicas", 0)
    if expected >= 0 and actual != expected:
        raise KubectlError(f"Expected replicas to be {expected}, was {actual}")
    if not writer.is_client_side:
        patch: dict[str, object] = {"spec": {"replicas": flags.integer("replicas")}}
        if version:
            patch["metadata"] = {"resourceVersion": version}
        session.api.request("PATCH", path, query=writer.query, body=patch, content_type=MERGE_PATCH)
    writer.report(session.api.get(ref.path), "scaled")
