# SPDX-License-Identifier: Apache-2.0
"""The environment of controllers, the same in the daemon and in external programs."""

import sys
from collections.abc import Mapping
from pathlib import Path

from rdd.controllers.environment import ControllerEnvironment
from rdd.host.errors import HostError
from rdd.instance import Instance
from rdd.profiles.current import CurrentProfile

AGENT_COMMAND = (sys.executable, "-m", "rdd.vm.agent")
"""The command of a host agent."""

DRAIN_S = 45.0
"""Budget of all controllers together to drain; a virtual machine needs up to 30 s."""


def controller_environment(
    instance: Instance,
    *,
    environment: Mapping[str, str],
    version: str,
    has_database: bool = False,
    machine: str = "",
) -> ControllerEnvironment:
    """`has_database`: this process stores the objects in the database of the instance."""

    def copy_database(target: Path) -> None:
        from rdd.daemon.service import backups
        from rdd.daemon.service.errors import ServiceError

        try:
            backups.create(instance, target)
        except ServiceError as error:
            raise HostError(str(error)) from error

    return ControllerEnvironment(
        instance=instance,
        home=instance.home,
        environment=environment,
        agent_command=AGENT_COMMAND,
        version=version,
        profile=CurrentProfile.of(instance),
        copy_database=copy_database if has_database else None,
        machine=machine,
    )
