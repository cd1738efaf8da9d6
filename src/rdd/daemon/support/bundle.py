# SPDX-License-Identifier: Apache-2.0
"""The support bundle: one file with the information to diagnose a fault.

Versions, status, environment, the list of files, logs, and all objects: from the API if it
responds, otherwise from the database, opened read-only. Everything is redacted; keys, tokens,
kubeconfigs and the database itself are never included. `problems.txt` lists what could not be
collected: an incomplete bundle is better than none. `contents.txt` lists every file with its size
and the number of redacted texts, for a review before it is published.
"""

import importlib.metadata
import io
import json
import os
import platform
import shutil
import sqlite3
import stat
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rdd.daemon.service import record
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.probe import NotReady, Probe
from rdd.daemon.support.redaction import REDACTED, Redactor
from rdd.host.files import open_new, read_text, replace
from rdd.instance import Instance

_LOG_BYTES = 8 << 20  # the last bytes of each log file
_PACKAGES = (
    "aiohttp", "cryptography", "google-re2", "httptools", "isal", "orjson", "PyYAML", "uvloop",
)  # fmt: skip


class Bundle:
    """Collects the bundle of one instance."""

    def __init__(
        self,
        instance: Instance,
        *,
        version: Mapping[str, str],
        status: Mapping[str, Any],
        variables: Mapping[str, str],
    ) -> None:
        self._instance = instance
        self._version = version
        self._status = status
        self._variables = variables
        self._redactor = Redactor(_known_secrets(instance))
        self._problems: list[str] = []
        self.contents: list[str] = []
        """A line for each file: bytes, redacted texts, name."""
        self._top = f"{instance.name}-support"

    def write(self, path: Path) -> None:
        """Write the bundle, readable by its owner only. Raises OSError."""
        unfinished = path.parent / f".{path.name}.partial"
        try:
            descriptor = open_new(unfinished)
            with (
                os.fdopen(descriptor, "wb") as file,
                tarfile.open(fileobj=file, mode="w:gz") as tar,
            ):
                self._collect(tar)
            replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _collect(self, tar: tarfile.TarFile) -> None:
        self._add_json(tar, "versions.json", self._versions)
        self._add_json(tar, "status.json", lambda: self._status)
        self._add_json(tar, "environment.json", self._environment)
        self._add(tar, "files.txt", lambda: "\n".join(self._files()) + "\n")
        self._add(tar, "args.json", lambda: read_text(self._instance.args_file) or "")
        for path in _logs(self._instance):
            self._add(tar, f"logs/{path.name}", partial(_tail, path))
        self._add_objects(tar)
        if self._problems:
            problems = "\n".join(self._problems) + "\n"
            self._put(tar, "problems.txt", self._redactor.text(problems))
        lines = "\n".join(self.contents)
        self._put(tar, "contents.txt", f"     bytes  redacted  file\n{lines}\n")

    def _versions(self) -> dict[str, Any]:
        return {
            "rdd": dict(self._version),
            "python": sys.version,
            "platform": platform.platform(),
            "sqlite": sqlite3.sqlite_version,
            "packages": {name: _package_version(name) for name in _PACKAGES},
            "programs": {
                name: shutil.which(name, path=self._variables.get("PATH"))
                for name in ("kubectl", "docker", "limactl", "qemu-system-x86_64", "ssh")
            },
        }

    def _environment(self) -> dict[str, Any]:
        daemon = record.read(self._instance)
        return {
            "command": self._redactor.environment(self._variables),
            "daemon": self._redactor.environment(
                _environment_of(daemon.process.pid) if daemon is not None else {}
            ),
        }

    def _files(self) -> Iterator[str]:
        instance = self._instance
        for top in (instance.dir, instance.short_dir, instance.log_dir):
            for path in [top, *sorted(top.rglob("*"))]:
                try:
                    status = path.lstat()
                except OSError as error:
                    yield f"{path}: {error.strerror}"
                    continue
                when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
                yield f"{stat.filemode(status.st_mode)} {status.st_size:>10} {when} {path}"

    def _add_objects(self, tar: tarfile.TarFile) -> None:
        try:
            with Probe(self._instance) as probe:
                objects = list(_served(probe))
                for name, path in (("readyz.txt", "/readyz?verbose"), ("metrics.txt", "/metrics")):
                    self._add(tar, name, partial(probe.text, path))
        except (NotReady, ServiceError) as error:
            self._problems.append(f"the API did not respond: {error}")
            try:
                objects = list(_stored(self._instance.database))
            except (OSError, sqlite3.Error, ValueError) as failure:
                self._problems.append(f"the database was not read: {failure}")
                return
        for name, items in objects:
            redacted = [self._redactor.object(item) for item in items]
            self._put(tar, f"objects/{name}.json", json.dumps(redacted, indent=1))

    def _add_json(self, tar: tarfile.TarFile, name: str, collect: Callable[[], Any]) -> None:
        try:
            text = json.dumps(self._redactor.value(collect()), indent=2)
        except Exception as error:  # a broken instance is the reason for a bundle
            self._problems.append(f"{name}: {type(error).__name__}: {error}")
            return
        self._put(tar, name, text)

    def _add(self, tar: tarfile.TarFile, name: str, collect: Callable[[], str]) -> None:
        try:
            text = self._redactor.text(collect())
        except Exception as error:
            self._problems.append(f"{name}: {type(error).__name__}: {error}")
            return
        self._put(tar, name, text)

    def _put(self, tar: tarfile.TarFile, name: str, text: str) -> None:
        """Add a redacted text; applying the patterns again would break JSON."""
        data = self._redactor.known(text).encode("utf-8", "replace")
        count = data.count(REDACTED.encode())
        self.contents.append(f"{len(data):>10}  {count:>8}  {name}")
        entry = tarfile.TarInfo(f"{self._top}/{name}")
        entry.size = len(data)
        entry.mode = 0o600
        entry.mtime = int(time.time())
        tar.addfile(entry, io.BytesIO(data))


def _known_secrets(instance: Instance) -> Iterator[str]:
    """Yield every token of the instance: those that it keeps, and those in its kubeconfigs."""
    import yaml

    try:
        yield from json.loads(instance.tokens_file.read_text()).values()
    except (OSError, ValueError, AttributeError):
        pass  # not created yet, or damaged

    for path in (instance.config, instance.k3s_config, instance.kube_config):
        try:
            config = yaml.safe_load(path.read_text())
            for user in config["users"]:
                yield from (str(value) for value in user["user"].values())
        except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
            continue


def _logs(instance: Instance) -> Iterable[Path]:
    yield from sorted(instance.log_dir.glob("*.log"))


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - _LOG_BYTES, 0))
        text = file.read().decode("utf-8", "replace")
    return text if size <= _LOG_BYTES else "…" + text.partition("\n")[2]


def _package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _environment_of(pid: int) -> dict[str, str]:
    """Return the initial environment of a process; empty on systems without /proc."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.decode("utf-8", "replace").partition("=") for item in data.split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def _served(probe: Probe) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield all objects from the API, by resource."""
    for path in _group_paths(probe):
        for resource in probe.get(path).get("resources", []):
            name = resource["name"]
            if "/" not in name and "list" in resource["verbs"]:
                group = path.removeprefix("/apis/").removeprefix("/api/").replace("/", "_")
                # Items of a list have no kind, and Secrets must be recognised.
                items = probe.get(f"{path}/{name}").get("items") or []
                yield f"{name}.{group}", [{"kind": resource["kind"], **item} for item in items]


def _group_paths(probe: Probe) -> Iterator[str]:
    yield "/api/v1"
    for group in probe.get("/apis").get("groups", []):
        yield f"/apis/{group['preferredVersion']['groupVersion']}"


def _stored(database: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield all objects from the database, by resource."""
    from rdd.apiserver.state import codec
    from rdd.store.sqlite import schema

    if not database.exists():
        return
    found: dict[str, list[dict[str, Any]]] = {}
    connection = schema.connect_reader(database)
    try:
        everything = ("/", "0", (1 << 62))
        for _, key, _, _, _, value, _ in connection.execute(schema.SCAN_ALL, everything):
            name = key.removeprefix("/registry/").partition("/")[0]
            try:
                # Stored objects have no kind, and Secrets must be recognised.
                obj = {"kind": "Secret" if name == "secrets" else name, **codec.decode(value)}
            except ValueError:
                obj = {"undecodable": key}
            found.setdefault(name, []).append(obj)
    finally:
        connection.close()
    yield from sorted(found.items())
