# SPDX-License-Identifier: Apache-2.0
"""The host environment of controllers: paths, variables, version.

The factory of every controller gets this value; no controller reads the process environment,
the home directory or the command line. So two instances can run in one process, and a test
defines everything that a controller can see.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.instance import Instance
from rdd.profiles.current import CurrentProfile, watching

if TYPE_CHECKING:
    from rdd.fetch.sources import Sources
    from rdd.profiles.rules import Rules


@dataclass(frozen=True, slots=True)
class ControllerEnvironment:
    """Everything outside of the API that a controller may use."""

    instance: Instance
    home: Path
    """The user's home directory."""
    environment: Mapping[str, str]
    """Environment variables, a snapshot taken when the process started."""
    agent_command: tuple[str, ...]
    """Command that starts a host agent; the agent's own arguments are appended."""
    version: str
    """Version of rdd."""
    profile: CurrentProfile | None = None
    """The deployment profile of the instance; None: there is none, and none can appear."""
    copy_database: Callable[[Path], None] | None = None
    """Write a verified copy of the database to a new file. Blocking; raises HostError. None: the
    database is not that of this process."""
    machine: str = ""
    """The name of this machine on a store that several share."""

    def rules(self) -> "Rules | None":
        """Return the rules of the deployment profile that applies now; None without one."""
        return self.profile.rules() if self.profile is not None else None

    def has_locks(self) -> bool:
        """Return whether settings of the App are locked now."""
        rules = self.rules()
        return rules is not None and bool(rules.locks)

    def watching_profile(self, on_change: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `on_change` after changes of the deployment profile, while the block runs."""
        if self.profile is None:
            return nullcontext()
        return watching(self.profile.places, on_change)

    def sources(self) -> "Sources":
        """Return what may be fetched now."""
        from rdd.fetch.sources import EVERYTHING

        rules = self.rules()
        return rules.sources if rules is not None else EVERYTHING
