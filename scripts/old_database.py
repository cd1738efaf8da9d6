# SPDX-License-Identifier: Apache-2.0
"""Write the database of an older version as SQL: what the tests of upgrades start from.

python scripts/offline.py .venv/bin/python scripts/old_database.py COMMIT OBJECTS OUTPUT

The daemon of that commit runs in an empty home with this environment's packages. It gets the
objects of a manifest, one of them in several revisions, and stops. `tests/data/store/0.1.0.sql`:
COMMIT is the parent of `git log -S '"0.2.0.dev0"' -- src/rdd/__init__.py`, OBJECTS is `0.1.0.yaml`.
"""

import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PRAGMAS = ("application_id", "user_version", "auto_vacuum", "page_size")


def _write(commit: str, objects: Path, output: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        source = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "src"], check=True, stdout=subprocess.PIPE
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(source)) as archive:
            archive.extractall(home, filter="data")
        environment = {
            "HOME": folder,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(home / "src"),
        }

        def rdd(*words: str) -> None:
            command = [sys.executable, "-m", "rdd", *words]
            subprocess.run(command, check=True, cwd=home, env=environment)

        rdd("service", "create", "--controllers=app,limavm")  # few definitions: a small file
        rdd("service", "start")
        try:
            rdd("ctl", "apply", "-f", str(objects))
            for count in ("2", "3"):
                patch = f'{{"data":{{"count":"{count}"}}}}'
                rdd("ctl", "-n", "team", "patch", "configmap", "counted", "-p", patch)
            rdd("ctl", "-n", "team", "create", "configmap", "deleted")
            rdd("ctl", "-n", "team", "delete", "configmap", "deleted")
        finally:
            rdd("service", "stop")
        (database,) = home.glob(".local/share/*/db/state.db")
        output.write_text("".join(f"{line}\n" for line in _dump(database)))


def _dump(database: Path) -> Iterator[str]:
    """Yield the statements that make the database, values as text."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        for name in reversed(_PRAGMAS):
            (value,) = connection.execute(f"PRAGMA {name}").fetchone()
            yield f"PRAGMA {name} = {value};"
        for name, statement in connection.execute(
            "SELECT name, sql FROM sqlite_schema ORDER BY rowid"
        ).fetchall():
            yield f"{statement};"
            if not statement.startswith("CREATE TABLE"):
                continue
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                values = ", ".join(_literal(value) for value in row)
                yield f"INSERT INTO {name} VALUES ({values});"


def _literal(value: object) -> str:
    if isinstance(value, bytes):
        return f"CAST({_literal(value.decode())} AS BLOB)"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    if shutil.which("git") is None or len(sys.argv) != 4:
        sys.exit(__doc__)
    _write(sys.argv[1], Path(sys.argv[2]).absolute(), Path(sys.argv[3]))
