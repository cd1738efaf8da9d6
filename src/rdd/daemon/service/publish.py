# SPDX-License-Identifier: Apache-2.0
"""The tools in the instance's `bin` directory, for the user's PATH.

Two cases. In an app bundle (the executable lies in `resources/<system>/bin`) the
directory is ours alone: it is made anew with a link to every program beside the
executable, and `kubectl`. Standalone it may hold the user's links too: only `rdd`
and `kubectl` are made, and only where nothing that works is in their place.

Symbolic links first, hard links when they are refused (or with RDD_NO_SYMLINKS),
copies when the directory is on another disk. A hard link or copy looks like any
file, so `.published.json` remembers what was made from what: one whose original
is gone or was replaced is made anew, a file of the user is never touched.
"""

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.files import write_atomically

log = logging.getLogger("rdd.daemon")

MANIFEST = ".published.json"
_BUNDLES = ("/Resources/darwin/bin/rdd", "/resources/linux/bin/rdd")
_STANDALONE = ("rdd", "kubectl")


@dataclass(frozen=True, slots=True)
class Publisher:
    """Fills one `bin` directory with links to one executable and its siblings."""

    directory: Path
    executable: Path
    """As it was started, links not resolved."""
    use_symlinks: bool = True

    def publish(self) -> None:
        """Put the tools in place; what fails is logged, never raised."""
        try:
            if not self.executable.is_file():
                return  # run as a module: there is no file that starts us
            if str(self.executable).endswith(_BUNDLES):
                self._publish_bundle()
            else:
                self._publish_standalone()
        except (OSError, HostError) as error:
            log.warning('tools were not published to "%s": %s', self.directory, error)

    def _publish_bundle(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        made: dict[str, Any] = {}
        for sibling in sorted(self.executable.parent.iterdir()):
            if not sibling.is_dir():
                self._link(sibling.name, sibling, made)
        if "kubectl" not in made:
            self._link("kubectl", self.executable, made)
        self._remember(made)

    def _publish_standalone(self) -> None:
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        before = self._manifest()
        made = dict(before)
        for path in self.directory.iterdir():
            if (path.is_symlink() and not path.exists()) or _is_outdated(path, before):
                path.unlink()
                made.pop(path.name, None)
        for name in _STANDALONE:
            if not (self.directory / name).exists():
                self._link(name, self.executable, made)
        made = {name: entry for name, entry in made.items() if (self.directory / name).exists()}
        if made != before:
            self._remember(made)

    def _link(self, name: str, target: Path, made: dict[str, Any]) -> None:
        path = self.directory / name
        if self.use_symlinks:
            try:
                path.symlink_to(target)
                return
            except OSError as error:
                log.debug('no symbolic link "%s": %s', path, error)
        original = target.resolve()
        try:
            os.link(original, path)
        except OSError as error:
            log.debug('no hard link "%s": %s', path, error)
            try:
                shutil.copy2(original, path)
            except OSError as failure:
                log.warning('"%s" was not published: %s', path, failure)
                return
        made[name] = {"target": str(original), **_stamp(original)}

    def _manifest(self) -> dict[str, Any]:
        try:
            found = json.loads((self.directory / MANIFEST).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _remember(self, made: Mapping[str, Any]) -> None:
        path = self.directory / MANIFEST
        if made:
            write_atomically(path, json.dumps(made, indent=2), mode=0o644, durable=False)
        else:
            path.unlink(missing_ok=True)


def _stamp(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "modified": status.st_mtime_ns}


def _is_outdated(path: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether a file was made by us from something that is gone or has changed."""
    entry = manifest.get(path.name)
    if not isinstance(entry, dict) or path.is_symlink():
        return False
    try:
        is_ours = _stamp(path) == {"size": entry["size"], "modified": entry["modified"]}
        if not is_ours:
            return False
        return _stamp(Path(entry["target"])) != _stamp(path)
    except KeyError:
        return False
    except OSError:
        return True
