# SPDX-License-Identifier: Apache-2.0
"""The tools in the instance's `bin` directory, for the user's PATH.

In an app bundle (the executable is in `resources/<system>/bin`) the directory is owned by rdd:
it is recreated with a link to every program beside the executable, and `kubectl`. Standalone
it may contain links of the user: only `rdd` and `kubectl` are created, and only if no working
file has their name.

Symbolic links are preferred, hard links are the fallback (or RDD_NO_SYMLINKS), and copies if
the directory is on another disk. A hard link or copy looks like any file, so `.published.json`
records its original: if that was removed or replaced, the tool is created again. A file of the
user is never changed.
"""

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import write_atomically

log = logging.getLogger("rdd.daemon")

MANIFEST = ".published.json"
_BUNDLES = ("/Resources/darwin/bin/rdd", "/resources/linux/bin/rdd")
_STANDALONE = ("rdd", "kubectl")


@dataclass(frozen=True, slots=True)
class Publisher:
    """Creates links to one executable and its siblings in a `bin` directory."""

    directory: Path
    executable: Path
    """The path that was run, links not resolved."""
    use_symlinks: bool = True

    def publish(self) -> None:
        """Publish the tools; failures are logged, never raised."""
        try:
            if not self.executable.is_file():
                return  # run as a module: there is no executable
            if str(self.executable).endswith(_BUNDLES):
                self._publish_bundle()
            else:
                self._publish_standalone()
        except (OSError, HostError) as error:
            log.warning('tools were not published to "%s": %s', self.directory, error)

    def _publish_bundle(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        make_private_dir(self.directory.parent)
        self.directory.mkdir(mode=0o755, exist_ok=True)
        created: dict[str, Any] = {}
        for sibling in sorted(self.executable.parent.iterdir()):
            if not sibling.is_dir():
                self._link(sibling.name, sibling, created)
        if "kubectl" not in created:
            self._link("kubectl", self.executable, created)
        self._write_manifest(created)

    def _publish_standalone(self) -> None:
        make_private_dir(self.directory.parent)
        self.directory.mkdir(mode=0o755, exist_ok=True)
        before = self._manifest()
        created = dict(before)
        for path in self.directory.iterdir():
            if (path.is_symlink() and not path.exists()) or _is_outdated(path, before):
                path.unlink()
                created.pop(path.name, None)
        for name in _STANDALONE:
            if not (self.directory / name).exists():
                self._link(name, self.executable, created)
        created = {
            name: entry for name, entry in created.items() if (self.directory / name).exists()
        }
        if created != before:
            self._write_manifest(created)

    def _link(self, name: str, target: Path, created: dict[str, Any]) -> None:
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
        created[name] = {"target": str(original), **_stamp(original)}

    def _manifest(self) -> dict[str, Any]:
        try:
            found = json.loads((self.directory / MANIFEST).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write_manifest(self, created: Mapping[str, Any]) -> None:
        path = self.directory / MANIFEST
        if created:
            write_atomically(path, json.dumps(created, indent=2), mode=0o644, durable=False)
        else:
            path.unlink(missing_ok=True)


def _stamp(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "modified": status.st_mtime_ns}


def _is_outdated(path: Path, manifest: Mapping[str, Any]) -> bool:
    """Return whether a published file has an original that was removed or changed."""
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
