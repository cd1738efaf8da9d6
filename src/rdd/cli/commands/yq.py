# SPDX-License-Identifier: Apache-2.0
"""`rdd yq …`: run the user's yq."""

from rdd.cli.framework.exec_tool import replace_process
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    replace_process(call, "yq", advice="rdd does not contain one; install yq")
