# SPDX-License-Identifier: Apache-2.0
"""The kube context of the App's cluster, in the kubeconfig of the user and in a file of its own.

It is published when the cluster becomes ready and removed when it stops. In between the
files belong to the user: an entry that was changed or removed is not restored. The current
context is checked once, on the way to ready, and replaced only if it is missing or dead
(`rdd.host.contexts.kube_health`).

All file access may wait for locks, so it runs in a thread.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rdd.controllers.environment import ControllerEnvironment
from rdd.host import files
from rdd.host.contexts import kube_contexts, kube_health, yaml_entries
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError

log = logging.getLogger("rdd.controllers.kubernetes")

Entry = dict[str, Any]


class KubeContexts:
    """Publishes and removes the entries; skips work that is already done."""

    def __init__(self, env: ControllerEnvironment) -> None:
        instance = env.instance
        self._name = instance.name
        self._source = instance.k3s_config
        self._own = instance.kube_config
        self._environment: Mapping[str, str] = env.environment
        self._paths = kube_contexts.locations(env.environment, env.home)
        self._published = ""
        self._is_removed = False
        self._reported = ""

    async def publish(self) -> None:
        """Write the entries. Raises HostError."""
        text = await asyncio.to_thread(files.read_text, self._source)
        if text is None:
            raise HostError(f'"{self._source}" is missing')
        if text == self._published:
            return
        self._is_removed = False
        await asyncio.to_thread(self._write, text)
        self._published = text
        self._reported = ""

    def _write(self, text: str) -> None:
        cluster, user = _parts(self._source, text)
        make_private_dir(self._own.parent)
        own = kube_contexts.standalone(self._name, cluster=cluster, user=user)
        if files.read_text(self._own) != own:
            files.write_atomically(self._own, own)
        kube_contexts.publish(self._paths, self._name, cluster=cluster, user=user)

    async def choose(self) -> None:
        """Make the context the current one if that of the user is missing or dead."""
        verdict = await kube_health.should_switch(
            self._paths, self._name, environment=self._environment
        )
        if not verdict.should_switch:
            log.debug("the current kube context was not changed: %s", verdict.reason)
            return
        try:
            await asyncio.to_thread(
                kube_contexts.make_current, self._paths, self._name, instead_of=verdict.current
            )
            log.info("switched to kube context %s: %s", self._name, verdict.reason)
        except HostError as error:
            self.report(str(error))

    async def remove(self) -> str:
        """Remove the entries and return the problems; empty if there are none."""
        self._published = ""
        if self._is_removed:
            return ""
        problems = await asyncio.to_thread(self._remove)
        self._is_removed = not problems
        if problems:
            self.report(problems)
        return problems

    def _remove(self) -> str:
        problems = []
        for path in self._paths:
            try:
                kube_contexts.remove(path, self._name)
            except HostError as error:
                problems.append(str(error))
        try:
            files.remove(self._own)
        except HostError as error:
            problems.append(str(error))
        return "; ".join(problems)

    def report(self, problem: str) -> None:
        """Log a problem, unless it is the same as before."""
        if problem != self._reported:
            self._reported = problem
            log.warning("%s", problem)


def _parts(path: Path, text: str) -> tuple[Entry, Entry]:
    """Return the only cluster and the only user of a kubeconfig. Raises HostError."""
    try:
        config = yaml_entries.parsed(text)
        (cluster,), (user,) = config["clusters"], config["users"]
        return dict(cluster["cluster"]), dict(user["user"])
    except (ValueError, LookupError, TypeError) as error:
        raise HostError(f'"{path}" is not the kubeconfig of one cluster: {error}') from error
