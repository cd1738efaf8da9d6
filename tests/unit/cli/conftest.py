# SPDX-License-Identifier: Apache-2.0
"""Runs the command line in this process, with streams and environment as values."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rdd.cli.framework.entry import run


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    code: int
    out: str
    err: str
    environ: dict[str, str]


Rdd = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def rdd(home: Path) -> Rdd:
    """Call rdd with arguments; keyword arguments are environment variables."""

    def call(*words: str, argv0: str = "/opt/rdd/bin/rdd", **variables: str) -> Outcome:
        environ = {"HOME": str(home), **variables}
        out, err = io.StringIO(), io.StringIO()
        code = run([argv0, *words], environ, stdout=out, stderr=err)
        return Outcome(code, out.getvalue(), err.getvalue(), environ)

    return call
