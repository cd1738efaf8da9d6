# SPDX-License-Identifier: Apache-2.0
"""The data of `create configmap` and `create secret`: literals, files, env files."""

import base64
from pathlib import Path

from rdd.api import name_validation
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.session import Session


class DataEntries:
    """Entries of a ConfigMap or a Secret: bytes by key."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def add(self, key: str, value: bytes) -> None:
        """Add a value. Raises KubectlError for an invalid or a duplicate key."""
        if problems := name_validation.config_map_key_errors(key):
            raise KubectlError(f'"{key}" is not valid key name: {"; ".join(problems)}')
        if key in self._values:
            raise KubectlError(f'cannot add key "{key}", another key by that name already exists')
        self._values[key] = value

    def split(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return UTF-8 texts as they are, and binary values in base64."""
        texts: dict[str, str] = {}
        binary: dict[str, str] = {}
        for key, value in self._values.items():
            try:
                texts[key] = value.decode()
            except UnicodeDecodeError:
                binary[key] = base64.b64encode(value).decode()
        return texts, binary

    def encoded(self) -> dict[str, str]:
        """Return all values in base64."""
        return {key: base64.b64encode(value).decode() for key, value in self._values.items()}


def read_sources(session: Session) -> DataEntries:
    """Return the data of --from-literal, --from-file and --from-env-file."""
    flags = session.flags
    if flags.texts("from-env-file") and (flags.texts("from-file") or flags.texts("from-literal")):
        raise KubectlError("from-env-file cannot be combined with from-file or from-literal")
    data = DataEntries()
    for literal in flags.texts("from-literal"):
        key, equals, value = literal.partition("=")
        if not equals or not key:
            raise KubectlError(f"invalid literal source {literal}, expected key=value")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        data.add(key, value.encode())
    for source in flags.texts("from-file"):
        _add_file(data, source)
    for name in flags.texts("from-env-file"):
        _add_env_file(session, data, name)
    return data


def _add_file(data: DataEntries, source: str) -> None:
    key, equals, name = source.rpartition("=")
    path = Path(name)
    if equals and not key:
        raise KubectlError(f"key name for file path {name} missing")
    if not path.exists():
        raise KubectlError(f"error reading {name}: no such file or directory")
    if not path.is_dir():
        data.add(key or path.name, _read(path))
        return
    if key:
        raise KubectlError("cannot give a key name for a directory path")
    for file in sorted(path.iterdir()):
        if file.is_file():
            data.add(file.name, _read(file))


def _add_env_file(session: Session, data: DataEntries, name: str) -> None:
    for line in _read(Path(name)).decode(errors="replace").splitlines():
        stripped = line.lstrip()
        if not stripped or stripped.startswith("#"):
            continue
        key, equals, value = stripped.partition("=")
        data.add(key, (value if equals else session.variables.get(key, "")).encode())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubectlError(f"error reading {path}: {(error.strerror or '').lower()}") from None


def encoded_file(name: str) -> str:
    """Return the content of a file in base64."""
    return base64.b64encode(_read(Path(name))).decode()
