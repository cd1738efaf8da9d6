# SPDX-License-Identifier: Apache-2.0
"""What the page is built from, and where it is delivered."""

import json
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.programs import run_program

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "dashboard"


def test_packages_are_locked_by_hash_and_name_no_registry() -> None:
    text = (PAGE / "package-lock.json").read_text()
    packages = json.loads(text)["packages"]
    without = [name for name, entry in packages.items() if name and "integrity" not in entry]
    assert without == []
    assert '"resolved"' not in text
    assert not any(entry.get("hasInstallScript") for name, entry in packages.items() if not name)
    assert "ignore-scripts=true" in (PAGE / ".npmrc").read_text()


def test_sources_use_no_html_of_strings() -> None:
    banned = ("innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "eval(")
    found = [
        f"{path.name}: {word}"
        for path in (PAGE / "src").rglob("*.ts*")
        for word in banned
        if word in path.read_text()
    ]
    assert found == []


def test_built_page_is_complete(built_page: Path) -> None:
    build = (built_page / "BUILD").read_text().strip()
    page = (built_page / "index.html").read_text()
    assert f'<meta name="rdd-build" content="{build}">' in page
    assert "http://" not in page and "https://" not in page
    notices = (built_page / "THIRD-PARTY.txt").read_text()
    for name in ("preact", "@preact/signals-core", "@xterm/xterm", "vite"):
        assert f"\n{name} " in notices
    for path in (built_page / "assets").glob("*.js"):
        if path.stat().st_size > 500:
            assert Path(f"{path}.gz").exists() and Path(f"{path}.br").exists()


@pytest.mark.parametrize("target", ["sdist", "wheel"])
def test_package_contains_the_page(built_page: Path, tmp_path: Path, target: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    run_program([*command, "--directory", str(tmp_path)], cwd=ROOT, check=True)
    [archive] = tmp_path.iterdir()
    if target == "wheel":
        with zipfile.ZipFile(archive) as wheel:
            names = wheel.namelist()
    else:
        with tarfile.open(archive) as sdist:
            names = sdist.getnames()
    for wanted in ("index.html", "THIRD-PARTY.txt", "assets/"):
        assert any(f"rdd/dashboard/assets/{wanted}" in name for name in names)
    assert not any("node_modules" in name for name in names)
