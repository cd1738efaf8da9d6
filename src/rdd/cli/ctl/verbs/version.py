# SPDX-License-Identifier: Apache-2.0
"""`version`: the versions of this client and of the server."""

from rdd.cli.ctl import output
from rdd.cli.ctl.failures import CtlError
from rdd.cli.ctl.flags import Flag, Verb
from rdd.cli.ctl.session import Object, Session

VERB = Verb(
    "version",
    "[--client] [-o json|yaml]",
    "Show the versions of client and server",
    flags=(
        Flag("client", "do not ask the server", "bool"),
        Flag("output", "json or yaml", short="o"),
    ),
)


def run(session: Session) -> None:
    """Show the versions."""
    from rdd.cli.version import version

    form = session.flags.text("output")
    if form not in ("", "json", "yaml"):
        raise CtlError("--output must be 'yaml' or 'json'")
    own = f"{version()} (built-in client)"
    shown: Object = {"clientVersion": {"gitVersion": version(), "platform": "built-in"}}
    failure: CtlError | None = None
    if not session.flags.truth("client"):
        try:
            shown["serverVersion"] = session.api.get("/version")
        except CtlError as error:
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
