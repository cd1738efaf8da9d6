# SPDX-License-Identifier: Apache-2.0
"""The damaged objects that a daemon found, in a file for diagnostics.

The check `stored-objects` of `rdd doctor` and of the Diagnostic objects reads it, with or without a
daemon; it exists only while there are damaged objects.
"""

import json
import logging
from collections.abc import Iterable

from rdd.host.errors import HostError
from rdd.host.files import remove, write_atomically
from rdd.instance import Instance

log = logging.getLogger("rdd.daemon")


def write(instance: Instance, keys: Iterable[str]) -> None:
    """Replace the file; remove it if nothing is damaged."""
    names = sorted(key.removeprefix("/registry/") for key in keys)
    try:
        if names:
            write_atomically(instance.quarantine_file, json.dumps(names) + "\n")
        else:
            remove(instance.quarantine_file)
    except HostError as error:
        log.warning("%s", error)
