# SPDX-License-Identifier: Apache-2.0
"""`cluster-info`: show the address of the server."""

from rdd.kubectl.errors import unsupported
from rdd.kubectl.flags import Verb
from rdd.kubectl.session import Session

VERB = Verb("cluster-info", "", "Show the address of the server")


def run(session: Session) -> None:
    """Print the address if the server responds."""
    if session.args:
        raise unsupported(f'command "cluster-info {session.args[0]}"')
    session.api.get("/version")
    session.print(
        f"Kubernetes control plane is running at {session.config.server}",
        "",
        "To further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.",
    )
