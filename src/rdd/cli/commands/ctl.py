# SPDX-License-Identifier: Apache-2.0
"""`rdd ctl …`: kubectl for the control plane of the instance.

Starts the control plane if it is not running and overrides KUBECONFIG with its
kubeconfig. `wait-condition` is rdd's own subcommand; kubectl, the real or the built-in
one, handles everything else.
"""

from collections.abc import Sequence

from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    if call.args[:1] == ("wait-condition",):
        from rdd.cli.commands.wait_condition import run as wait_condition

        return wait_condition(call)
    if not asks_for_help(call.args):
        from rdd.cli.framework.autostart import ensure_running

        ensure_running(call)
    from rdd.cli.commands.kubectl import run_kubectl

    config = str(call.instance.config)
    return run_kubectl(call, {**call.environment.variables, "KUBECONFIG": config})


def asks_for_help(args: Sequence[str]) -> bool:
    """Return whether a call only prints help, for which nothing is started."""
    own = args[: args.index("--")] if "--" in args else args
    return not own or own[0] == "help" or "--help" in own or "-h" in own
