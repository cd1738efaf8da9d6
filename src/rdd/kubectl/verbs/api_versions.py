# SPDX-License-Identifier: Apache-2.0
"""`api-versions`: list the groups and versions of the server."""

from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.session import Session

VERB = Verb("api-versions", "", "List the API versions of the server")


def run(session: Session) -> None:
    if session.args:
        raise KubectlError(f"unexpected arguments: [{' '.join(session.args)}]")
    session.print(*sorted(session.resources.group_versions))
