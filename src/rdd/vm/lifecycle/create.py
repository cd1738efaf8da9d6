# SPDX-License-Identifier: Apache-2.0
"""Creation of an instance.

Invariant: an incomplete instance is recognisable at every moment. Its directory appears with
a `.preparing` file in it, and the last step of the creation removes that file. An attempt
that fails or is cancelled leaves nothing behind; the next attempt removes what a crash left.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from rdd.fetch.network import DIRECT, Network
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import remove, write_atomically
from rdd.vm.drivers import catalog
from rdd.vm.drivers.selection import driver_for, has_own_image
from rdd.vm.errors import MachineExists
from rdd.vm.instance_dir import (
    LAYOUT_VERSION,
    LIMA_VERSION,
    InstanceDirectory,
    InstanceRecord,
    InstanceStatus,
    LimaHome,
    check_socket_path,
)
from rdd.vm.lifecycle.delete import discard
from rdd.vm.template import HostFacts, Template, check, parse, resolve


async def create(
    home: LimaHome,
    name: str,
    text: str,
    *,
    facts: HostFacts,
    environment: Mapping[str, str],
    version: str,
    progress: Callable[[str], None],
    fill: Callable[[InstanceDirectory], Awaitable[None]] | None = None,
    driver: str = "",
    network: Network = DIRECT,
) -> None:
    """Create an instance from a template, for `driver` if one is given.

    `fill` creates its disk in place of the driver.

    Cancellable. Raises InvalidName, TemplateError, MachineExists, HostError, and then leaves
    nothing behind.
    """
    directory = home.directory(name)
    template = parse(text)
    # In a thread: drivers run programs to find out whether they work, and some are slow.
    driver = await asyncio.to_thread(driver_for, template, environment, driver=driver)
    directory.check_socket_paths(driver)
    check(template, driver=driver, has_image=has_own_image(environment))
    final = resolve(template, facts, name=name, directory=directory.path, driver=driver)
    _check_forwarded_sockets(final)
    if directory.status() is InstanceStatus.UNINITIALIZED:
        await discard(directory)
    _create_directory(home, directory)
    try:
        await asyncio.to_thread(_write, directory, text, InstanceRecord(driver, version), facts)
        if fill is not None:
            await fill(directory)
        else:
            await catalog.provider(driver).prepare(
                directory, final, environment=environment, progress=progress, network=network
            )
        remove(directory.preparing)
    except BaseException:
        await asyncio.shield(discard(directory))
        raise


def _create_directory(home: LimaHome, directory: InstanceDirectory) -> None:
    """Create the directory with the mark of an incomplete instance in it."""
    if directory.exists():
        raise MachineExists(f'machine "{directory.name}" already exists')
    make_private_dir(home.path)
    new = directory.creation_dir
    try:
        if new.exists():  # left by a crash during the next lines
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        (new / directory.preparing.name).touch(mode=0o600)
        new.rename(directory.path)
    except OSError as error:
        raise HostError.from_os(f'create directory "{directory.path}"', error) from error


def _write(
    directory: InstanceDirectory, text: str, record: InstanceRecord, facts: HostFacts
) -> None:
    directory.write_record(record)
    write_atomically(directory.path / LIMA_VERSION, f"{LAYOUT_VERSION}\n", mode=0o644)
    write_atomically(directory.lima_yaml, text, mode=0o644)
    directory.refresh_template(facts)


def _check_forwarded_sockets(template: Template) -> None:
    for rule in template.port_forwards:
        if rule.host_socket:
            check_socket_path(Path(rule.host_socket))
