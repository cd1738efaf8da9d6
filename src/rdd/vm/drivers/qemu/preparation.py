# SPDX-License-Identifier: Apache-2.0
"""Preparation of a new machine: fetch its image, create its disk.

The image is `RDD_GUEST_IMAGE` if that is set, else the first reachable image of the template
for the architecture. If none is reachable, the guest image installed for this user is the
fallback.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rdd.fetch.cache import Cache
from rdd.fetch.checkout import link_or_copy
from rdd.fetch.failures import SourceUnreachable
from rdd.fetch.fetching import fetch_expanded
from rdd.fetch.network import Network
from rdd.host.errors import HostError
from rdd.host.files import write_atomically
from rdd.host.user_cache import cache_directory
from rdd.vm import ssh
from rdd.vm.drivers.qemu import accelerator, disks, files
from rdd.vm.drivers.qemu.local_image import chosen_image, installed_image
from rdd.vm.drivers.qemu.programs import system_program
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template.model import File, Image, Template


async def prepare(
    directory: InstanceDirectory,
    template: Template,
    *,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
    network: Network,
) -> None:
    """Fetch the image and create the disk. Cancellable. Raises HostError."""
    home = Path(environment.get("HOME") or "/")
    cache = Cache.of_user(environment, home)
    program = system_program(template.arch, environment)
    await ssh.ensure_key(directory.path.parent)
    for image in _candidates(template, environment):
        try:
            await _place(image, directory.path, cache, progress, network)
            break
        except SourceUnreachable as error:
            problem = error
            progress(str(error))
    else:
        installed = installed_image(environment, home)
        if installed is None:
            raise problem
        progress(f"{problem}; using the installed guest image {installed.location}")
        await _place(installed, directory.path, cache, progress, network)
    progress("Creating the disk")
    await disks.create_overlay(
        directory.path / files.IMAGE, directory.path / files.DISK, template.disk
    )
    # The trial boot runs now, so that the first start does not wait for it.
    await accelerator.choose(
        program, environment, cache_directory(environment, home) / accelerator.CACHE_FILE
    )


def _candidates(template: Template, environment: Mapping[str, str]) -> Sequence[Image]:
    chosen = chosen_image(environment)
    if chosen is not None:
        return [chosen]
    found = [image for image in template.images if image.arch in ("", template.arch)]
    if not found:
        available = ", ".join(sorted({image.arch for image in template.images})) or "none"
        raise HostError(f"the template has no image for {template.arch}; available: {available}")
    return found


async def _place(
    image: Image,
    directory: Path,
    cache: Cache,
    progress: Callable[[str], None],
    network: Network,
) -> None:
    wanted: list[tuple[str, File]] = [(files.IMAGE, image)]
    if image.kernel is not None:
        wanted.append((files.KERNEL, image.kernel))
        if image.initrd is not None:
            wanted.append((files.INITRD, image.initrd))
    for name, file in wanted:
        path = await fetch_expanded(
            file.location,
            file.digest,
            cache=cache,
            report=lambda done: progress(str(done)),
            network=network,
        )
        link_or_copy(path, directory / name)
    if image.kernel is not None:
        write_atomically(directory / files.KERNEL_LINE, f"{image.kernel.cmdline}\n", mode=0o644)
