# SPDX-License-Identifier: Apache-2.0
"""`rdd ctl …`: kubectl for the control plane of the instance.

Starts the control plane if it is not running and overrides KUBECONFIG with its
kubeconfig. A verb that only reads does not create an instance that the user named: the
name may be mistyped. `wait-condition` is rdd's own subcommand; kubectl, the real or the built-in
one, handles everything else.
"""

from collections.abc import Sequence

from rdd.cli.framework.connection import credentials
from rdd.cli.framework.existing import is_named, require_instance
from rdd.cli.framework.types import Call

_READING = (
    "api-resources", "api-versions", "auth", "cluster-info", "describe", "diff", "events",
    "explain", "get", "logs", "top", "version",
)  # fmt: skip


def run(call: Call) -> int:
    if call.args[:1] == ("wait-condition",):
        from rdd.cli.commands.wait_condition import run as wait_condition

        return wait_condition(call)
    if not asks_for_help(call.args):
        if _is_reading(call.args) and is_named(call):
            require_instance(call)
        from rdd.cli.framework.autostart import ensure_running

        ensure_running(call)
        if _verb(call.args) != "config":  # which shows and edits the file itself
            credentials(call)  # without them kubectl would use localhost:8080
    from rdd.cli.commands.kubectl import run_kubectl

    config = str(call.instance.config)
    return run_kubectl(call, {**call.environment.variables, "KUBECONFIG": config})


def _is_reading(args: Sequence[str]) -> bool:
    """Return whether kubectl's verb only reads; `wait` may wait for what is created later."""
    return _verb(args) in _READING


def _verb(args: Sequence[str]) -> str:
    from rdd.kubectl.flags import split_verb

    return split_verb(args)[0]


def asks_for_help(args: Sequence[str]) -> bool:
    """Return whether a call only prints help, for which nothing is started."""
    own = args[: args.index("--")] if "--" in args else args
    return not own or own[0] == "help" or "--help" in own or "-h" in own
