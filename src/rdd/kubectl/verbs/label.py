# SPDX-License-Identifier: Apache-2.0
"""`label`: set and remove labels of objects."""

from rdd.kubectl import manifests, metadata_edit
from rdd.kubectl.flags import Verb
from rdd.kubectl.session import Session

VERB = Verb(
    "label",
    "(TYPE NAME… | TYPE/NAME… | TYPE --all | -f FILE) KEY=VALUE… KEY-…",
    "Change labels of objects",
    flags=metadata_edit.flags("label"),
    unsupported=(*manifests.UNSUPPORTED, "local"),
)


def run(session: Session) -> None:
    metadata_edit.run(session, metadata_edit.LABELS)
