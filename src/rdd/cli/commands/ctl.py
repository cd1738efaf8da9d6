# SPDX-License-Identifier: Apache-2.0
"""`rdd ctl …`: kubectl for the control plane of the instance.

The control plane is started if it does not run, and KUBECONFIG is its
kubeconfig, whatever the user's says. `wait-condition` is a command of rdd's own;
everything else is kubectl's, the real one or the built-in.
"""

from collections.abc import Sequence

from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Act as kubectl."""
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
    """Whether a call only shows a text: nothing is started for that."""
    own = args[: args.index("--")] if "--" in args else args
    return not own or own[0] == "help" or "--help" in own or "-h" in own
