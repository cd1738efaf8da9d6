# SPDX-License-Identifier: Apache-2.0
"""Places of profiles below a temporary directory; its owner stands for root."""

import os
from pathlib import Path

import pytest

from rdd.profiles import reading
from rdd.profiles.parsing import parse
from rdd.profiles.places import Places
from rdd.profiles.reading import ProfileFile
from rdd.profiles.rules import BrokenProfile, Profile

PATH = Path("/etc/rancher-desktop/rancher-desktop-2.yaml")


def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, suffix: str = "2") -> Places:
    monkeypatch.setattr(reading, "_ROOT", os.getuid())
    found = Places(suffix, tmp_path / "etc", tmp_path / "user")
    for directory in (found.system_dir, found.user_dir):
        directory.mkdir(mode=0o755)
    return found


def profile(text: str) -> Profile:
    """Return the profile of a text without mistakes."""
    rules = parse(ProfileFile(PATH, text.encode(), is_system=True))
    assert isinstance(rules, Profile), getattr(rules, "problems", ())
    return rules


def mistakes(data: bytes | str) -> list[str]:
    """Return the mistakes of a text as `LINE: …`."""
    raw = data.encode() if isinstance(data, str) else data
    rules = parse(ProfileFile(PATH, raw, is_system=True))
    assert isinstance(rules, BrokenProfile)
    return [problem.removeprefix(f"{PATH}:").strip() for problem in rules.problems]
