# SPDX-License-Identifier: Apache-2.0
"""What every process that runs controllers gives them."""

import sys
from collections.abc import Mapping

from rdd.controllers.environment import ControllerEnvironment
from rdd.instance import Instance

AGENT_COMMAND = (sys.executable, "-m", "rdd.vm.agent")
"""What starts a host agent."""

DRAIN_S = 45.0
"""What all controllers together may take to stop; a virtual machine needs up to 30 s."""


def controller_environment(
    instance: Instance, *, environment: Mapping[str, str], version: str
) -> ControllerEnvironment:
    """The world of the controllers of an instance."""
    return ControllerEnvironment(
        instance=instance,
        home=instance.home,
        environment=environment,
        agent_command=AGENT_COMMAND,
        version=version,
    )
