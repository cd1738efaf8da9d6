# SPDX-License-Identifier: Apache-2.0
"""`annotate`: set and remove annotations of objects."""

from rdd.kubectl import manifests, metadata_edit
from rdd.kubectl.flags import Verb
from rdd.kubectl.session import Session

VERB = Verb(
    "annotate",
    "(TYPE NAME… | TYPE/NAME… | TYPE --all | -f FILE) KEY=VALUE… KEY-…",
    "Change annotations of objects",
    flags=metadata_edit.flags("annotate"),
    unsupported=(*manifests.UNSUPPORTED, "local"),
)


def run(session: Session) -> None:
    metadata_edit.run(session, metadata_edit.ANNOTATIONS)
