# SPDX-License-Identifier: Apache-2.0
"""A guest image on this host that replaces the one of a template.

`RDD_GUEST_IMAGE` is the path of a disk image, or of a directory with files named as in an
instance: `image`, and for a direct boot `kernel`, `kernel.cmdline` and `initrd`; `make
guest-image` builds such a directory. The same directory at
`~/.local/share/rdd/guest` is used when an image cannot be downloaded.
"""

from collections.abc import Mapping
from pathlib import Path

from rdd.host.errors import FailureReason, HostError
from rdd.vm.template.model import File, Image, Kernel

VARIABLE = "RDD_GUEST_IMAGE"


def chosen_image(environment: Mapping[str, str]) -> Image | None:
    """Return the image of RDD_GUEST_IMAGE; None if it is not set. Raises HostError."""
    text = environment.get(VARIABLE, "")
    if not text:
        return None
    path = Path(text).expanduser()
    if not path.exists():
        raise HostError(f'{VARIABLE}: "{path}" does not exist', reason=FailureReason.INVALID_SOURCE)
    return _image(path)


def installed_image(environment: Mapping[str, str], home: Path) -> Image | None:
    """Return the guest image installed for this user; None if there is none."""
    base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    directory = base / "rdd" / "guest"
    return _image(directory) if (directory / "image").exists() else None


def _image(path: Path) -> Image:
    if not path.is_dir():
        return Image(location=str(path.absolute()))
    directory = path.resolve()
    image = directory / "image"
    if not image.exists():
        raise HostError(f'"{directory}" has no file "image"', reason=FailureReason.INVALID_SOURCE)
    kernel, initrd, line = (directory / name for name in ("kernel", "initrd", "kernel.cmdline"))
    if not kernel.exists():
        return Image(location=str(image))
    cmdline = line.read_text().strip() if line.exists() else ""
    return Image(
        location=str(image),
        kernel=Kernel(location=str(kernel), cmdline=cmdline),
        initrd=File(location=str(initrd)) if initrd.exists() else None,
    )
