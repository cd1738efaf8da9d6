# SPDX-License-Identifier: Apache-2.0
"""`rdd service rotate-tokens`: replace the tokens of the kubeconfig."""

from rdd.cli.commands.service.calls import working
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service.rotation import rotate_tokens

    with working(call, "replacing the tokens") as service:
        rotate_tokens(service, timeout_s=call.flags.seconds("timeout"))
    return 0
