# SPDX-License-Identifier: Apache-2.0
"""`rdd service config`: print the kubeconfig of the control plane."""

from rdd.cli.commands.service.calls import service_for
from rdd.cli.framework.autostart import ensure_running
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Print the kubeconfig; start the control plane first unless `--start=false`."""
    from rdd.host.files import read_text

    instance = call.instance
    if call.flags.truth("start"):
        ensure_running(call)
    elif service_for(call).running() is None:
        raise CommandError(f'"{instance.name}" control plane is not running')
    text = read_text(instance.config)
    if text is None:
        raise CommandError(f'"{instance.name}" control plane has no kubeconfig yet')
    call.out.write(text + "\n")
    return 0
