# SPDX-License-Identifier: Apache-2.0
"""`version`: show the versions of client and server."""

import rdd
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl.errors import FAILURES, Failure, KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.session import Session

VERSION = f"v{rdd.__version__}"

VERB = Verb(
    "version",
    "[--client] [-o json|yaml]",
    "Show the versions of client and server",
    flags=(
        Flag("client", "only the version of the client", "bool"),
        Flag("output", "json or yaml", short="o"),
    ),
)


def run(session: Session) -> None:
    form = session.flags.text("output")
    if form not in ("", "json", "yaml"):
        raise KubectlError("--output must be 'yaml' or 'json'")
    own = f"{VERSION} (built-in client)"
    shown: Object = {"clientVersion": {"gitVersion": VERSION, "platform": "built-in"}}
    failure: Failure | None = None
    if not session.flags.truth("client"):
        try:
            shown["serverVersion"] = session.api.get("/version")
        except FAILURES as error:
            failure = error
    if form:
        render = output.json_text if form == "json" else output.yaml_text
        session.out.write(render(shown))
    else:
        session.print(f"Client Version: {own}")
        if "serverVersion" in shown:
            session.print(f"Server Version: {shown['serverVersion'].get('gitVersion', '')}")
    if failure is not None:
        raise failure
