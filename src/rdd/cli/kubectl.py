# SPDX-License-Identifier: Apache-2.0
"""`rdd kubectl …`: the user's kubectl with the user's kubeconfig."""

from rdd.cli.tool import replace_process
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Become kubectl."""
    replace_process(call, "kubectl", advice="see https://kubernetes.io/docs/tasks/tools/")
