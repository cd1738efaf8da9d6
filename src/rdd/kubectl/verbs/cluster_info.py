# SPDX-License-Identifier: Apache-2.0
"""`cluster-info`: where the server is."""

from rdd.kubectl.errors import unsupported
from rdd.kubectl.flags import Verb
from rdd.kubectl.session import Session

VERB = Verb("cluster-info", "", "Show where the server is")


def run(session: Session) -> None:
    """Show the address of a server that answers."""
    if session.args:
        raise unsupported(f'command "cluster-info {session.args[0]}"')
    session.api.get("/version")
    session.print(
        f"Kubernetes control plane is running at {session.config.server}",
        "",
        "To further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.",
    )
