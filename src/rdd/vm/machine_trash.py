# SPDX-License-Identifier: Apache-2.0
"""Machines in the trash: the directory of an instance, without keys and tokens.

The data of k3s beside a container engine consists of certificates, tokens and a database that is
encrypted with them, so a restored machine starts a new cluster; its containers, images and
volumes, and the local volumes of the cluster, are kept. The disk of a guest is kept as it is.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.trash import Trash
from rdd.vm import reserve
from rdd.vm.instance_dir import InstanceDirectory, InvalidName

MACHINE = "machine"

OWNER = "owner"
"""Detail of an entry: the uid of the object that controlled the machine."""
SETTINGS = "settings"
"""Detail of an entry: the settings of that object, JSON. Also the kind of an entry without more."""
OMITTED = "omitted"
"""Detail of an entry: the settings that are not kept because of their credentials, JSON."""
PARAMS = "params"
"""Detail of an entry: the params of the LimaVM, JSON."""
NAMESPACE = "namespace"
"""Detail of an entry: the namespace of the LimaVM."""

_log = logging.getLogger(__name__)

WITHOUT = ("k3s/server", "k3s/agent/etc", "k3s.conf", reserve.NAME)
"""Keys, tokens, what is unusable without them, and the reserve, relative to the directory."""
_AGENT_KEYS = ("*.key", "*.crt", "*.kubeconfig")


class MachineTrash:
    """The trash for the machines of one instance of rdd, given by its suffix."""

    def __init__(self, trash: Trash, suffix: str) -> None:
        self._trash = trash
        self._suffix = suffix

    def keep(
        self,
        directory: InstanceDirectory,
        details: Mapping[str, str] | None = None,
        *,
        name: str = "",
    ) -> bool:
        """Move an instance to the trash, with `details`; False if it cannot be kept.

        `name` is that of the machine if its directory has another one. Entries that are too old,
        or for which space is short, are removed.
        """
        name = name or directory.name
        try:
            entry = self._trash.add(
                {item_of(name): directory.path},
                instance=self._suffix,
                kind=MACHINE,
                name=name,
                without=secrets_of(directory.path, name),
                details={"driver": _driver_of(directory), **(details or {})},
            )
            self._trash.purge()
        except HostError as error:
            _log.warning('machine "%s" is not kept in the trash: %s', name, error)
            return False
        return entry is not None

    def restore(self, directory: InstanceDirectory, entry_id: str) -> None:
        """Move the machine of an entry to an instance directory. Raises HostError."""
        entry = self._trash.find(entry_id)
        item = next((item for item in entry.items if item.startswith("lima/")), "") if entry else ""
        if entry is None or entry.instance != self._suffix or not item:
            raise HostError(f'the trash has no machine "{entry_id}"')
        self._trash.take(entry, {item: directory.path})


def item_of(name: str) -> str:
    """Return the path of a machine in an entry of the trash."""
    return f"lima/{name}"


def secrets_of(directory: Path, name: str) -> list[str]:
    """Return the paths in an entry that must not be kept; `name` is that of the machine."""
    found = list(WITHOUT)
    for pattern in _AGENT_KEYS:
        for path in (directory / "k3s" / "agent").glob(pattern):
            found.append(str(path.relative_to(directory)))
    return [f"{item_of(name)}/{path}" for path in found]


def _driver_of(directory: InstanceDirectory) -> str:
    try:
        return directory.driver
    except (HostError, InvalidName):
        return ""
