# SPDX-License-Identifier: Apache-2.0
"""Docker contexts on disk, as far as we remove our own.

A context is a directory named by the SHA-256 of its name, below `contexts/meta` (and
`contexts/tls`) of Docker's configuration directory; `currentContext` in `config.json`
names the one in use. Of `config.json` only that one member is taken out, the rest
keeps its bytes.
"""

import hashlib
import json
import re
import shutil
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically


def remove_docker_context(directory: Path, name: str) -> bool:
    """Remove a context and its selection; whether there was anything. Raises HostError.

    `directory` is Docker's configuration directory (`~/.docker`).
    """
    key = hashlib.sha256(name.encode()).hexdigest()
    found = _deselect(directory / "config.json", name)
    for kind in ("meta", "tls"):
        path = directory / "contexts" / kind / key
        if path.is_dir():
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise HostError.from_os(f'remove Docker context "{path}"', error) from error
            found = True
    return found


def _deselect(path: Path, name: str) -> bool:
    text = read_text(path)
    if text is None:
        return False
    try:
        config = json.loads(text)
    except ValueError:
        return False  # not ours to repair, and Docker cannot have selected us with it
    if not isinstance(config, dict) or config.get("currentContext") != name:
        return False
    target = path.resolve()  # the file may be a link into a repository of dotfiles
    write_atomically(
        target,
        _without_member(text, "currentContext", config),
        mode=target.stat().st_mode & 0o777,
    )
    return True


def _without_member(text: str, member: str, value: dict[str, object]) -> str:
    """The text of a JSON object without one member, otherwise unchanged."""
    quoted = r'"(?:[^"\\]|\\.)*"'
    pair = rf'"{member}"\s*:\s*{quoted}'
    wanted = {key: item for key, item in value.items() if key != member}
    for pattern in (rf"{pair}\s*,\s*", rf"\s*,\s*{pair}", pair):
        cut = re.sub(pattern, "", text, count=1)
        try:
            if json.loads(cut) == wanted:
                return cut
        except ValueError:
            continue
    return json.dumps(wanted, indent="\t") + "\n"  # the name occurs in odd places: content first
