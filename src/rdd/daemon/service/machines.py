# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of an instance without a daemon, by their files.

A host agent runs each machine; its process id is in `ha.pid` of the machine's directory. Agents
outlive a daemon that crashes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from rdd.host.errors import HostError
from rdd.host.processes import identity
from rdd.instance import Instance

_AGENT_PID = "ha.pid"


def is_any_vm_running(lima_home: Path) -> bool:
    """Return whether any host agent below LIMA_HOME runs."""
    for path in lima_home.glob(f"*/{_AGENT_PID}"):
        try:
            if identity(int(path.read_text())) is not None:
                return True
        except (OSError, ValueError):
            continue
    return False


def delete_all(
    instance: Instance, environment: Mapping[str, str], *, keep_logs: bool = False
) -> list[str]:
    """Shut down and remove every virtual machine of an instance; return the failures.

    With `keep_logs` their logs are moved to the log directory.
    """
    if not any(instance.lima_home.glob("*/")):
        return []  # the usual case, without slow imports
    import asyncio

    return asyncio.run(_for_all(instance, environment, "delete", keep_logs=keep_logs))


def end_all(
    instance: Instance, environment: Mapping[str, str], *, keep_logs: bool = False
) -> list[str]:
    """Shut down every virtual machine of an instance; return the failures."""
    if not any(instance.lima_home.glob("*/")):
        return []
    import asyncio

    return asyncio.run(_for_all(instance, environment, "end", keep_logs=keep_logs))


async def _for_all(
    instance: Instance,
    environment: Mapping[str, str],
    action: Literal["delete", "end"],
    *,
    keep_logs: bool,
) -> list[str]:
    import asyncio

    from rdd.daemon.managers.composition import AGENT_COMMAND
    from rdd.vm.instance_dir import LimaHome
    from rdd.vm.machines import Machines
    from rdd.vm.template import HostFacts

    home = LimaHome(instance.lima_home)
    machines = Machines(
        home,
        agent_command=AGENT_COMMAND,
        changed=lambda name: None,
        environment=environment,
        facts=HostFacts.gather(instance.home),
    )
    place = instance.log_dir if keep_logs else None
    work = machines.delete if action == "delete" else machines.end
    try:
        outcomes = await asyncio.gather(
            *(work(name, keep_logs_in=place) for name in home.names()),
            return_exceptions=True,
        )
    finally:
        await machines.close()
    problems = []
    for outcome in outcomes:
        if isinstance(outcome, HostError):
            problems.append(str(outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
    return problems
