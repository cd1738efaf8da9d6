# SPDX-License-Identifier: Apache-2.0
"""A guest image on this machine that takes the place of what a template names.

`RDD_GUEST_IMAGE` names a disk image, or a directory with the files Lima has in an instance:
`image`, and beside it `kernel`, `kernel.cmdline` and `initrd` for a guest that is booted
directly, which is what `make guest-image` builds. The same directory at
`~/.local/share/rdd/guest` is used when an image cannot be downloaded.
"""

from collections.abc import Mapping
from pathlib import Path

from rdd.host.errors import HostError
from rdd.vm.template.model import File, Image, Kernel

VARIABLE = "RDD_GUEST_IMAGE"


def chosen_image(environment: Mapping[str, str]) -> Image | None:
    """The image that RDD_GUEST_IMAGE names; None when it is not set. Raises HostError."""
    text = environment.get(VARIABLE, "")
    if not text:
        return None
    path = Path(text).expanduser()
    if not path.exists():
        raise HostError(f'{VARIABLE} names "{path}", which does not exist')
    return _image(path)


def installed_image(environment: Mapping[str, str], home: Path) -> Image | None:
    """The guest image installed for this user, if there is one."""
    base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    directory = base / "rdd" / "guest"
    return _image(directory) if (directory / "image").exists() else None


def _image(path: Path) -> Image:
    if not path.is_dir():
        return Image(location=str(path.absolute()))
    directory = path.resolve()
    image = directory / "image"
    if not image.exists():
        raise HostError(f'there is no file "image" in "{directory}"')
    kernel, initrd, line = (directory / name for name in ("kernel", "initrd", "kernel.cmdline"))
    if not kernel.exists():
        return Image(location=str(image))
    cmdline = line.read_text().strip() if line.exists() else ""
    return Image(
        location=str(image),
        kernel=Kernel(location=str(kernel), cmdline=cmdline),
        initrd=File(location=str(initrd)) if initrd.exists() else None,
    )
