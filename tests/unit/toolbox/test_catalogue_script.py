# SPDX-License-Identifier: Apache-2.0
"""`make catalogue`: digests come from the publishers' servers, and are never changed."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.origin import CONTENT, DIGEST, serving
from tests.programs import CompletedProcess, run_program

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
SCRIPT = Path("scripts/catalogue.py").resolve()


def _data(base: str) -> dict[str, Any]:
    common = {
        "title": "A tool",
        "license": "Apache-2.0",
        "homepage": "https://example.com",
        "role": "command",
        "versions": ["1.0.0"],
        "versionPattern": "[0-9.]+",
        "releases": {"url": f"{base}/releases", "pattern": '"v([0-9.]+)"'},
        "platforms": {"linux/amd64": {"arch": "x86_64"}},
    }
    published = {
        "url": f"{base}/{{version}}/published",
        "checksums": f"{base}/sums",
        "checksumsSignature": f"{base}/sums.asc",
        "programs": {"": "published"},
    }
    key = {"url": f"{base}/KEYS"}
    bare = {"url": f"{base}/{{version}}/bare", "programs": {"": "bare"}}
    return {
        "format": 1,
        "tools": {
            "bare": {**common, "files": [bare]},
            "published": {**common, "publicKey": key, "files": [published]},
        },
    }


async def _run(path: Path, *arguments: str) -> "CompletedProcess[str]":
    command = [sys.executable, str(SCRIPT), "--file", str(path), *arguments]
    return await asyncio.to_thread(run_program, command)


async def test_fills_in_what_the_publishers_have_and_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.json"
    async with serving() as origin:
        listed = "b" * 64
        origin.texts["/sums"] = f"{listed}  published\n"
        origin.texts["/releases"] = '[{"tag_name": "v1.1.0"}]'
        origin.texts["/KEYS"] = KEY
        path.write_text(json.dumps(_data(origin.base)))
        done = await _run(path, "--latest")
        assert done.returncode == 0, done.stderr
        tools = json.loads(path.read_text())["tools"]
        assert tools["bare"]["versions"] == ["1.0.0", "1.1.0"]
        assert tools["bare"]["digests"]["1.0.0"] == {
            f"{origin.base}/1.0.0/bare": {"digest": DIGEST, "size": len(CONTENT)}
        }
        assert tools["published"]["digests"]["1.1.0"] == {
            f"{origin.base}/1.1.0/published": {"digest": f"sha256:{listed}", "size": len(CONTENT)}
        }
        assert tools["published"]["publicKey"]["key"] == KEY
        origin.texts["/KEYS"] = f"another {KEY}"
        before = path.read_text()
        origin.content = b"another one"
        assert hashlib.sha256(origin.content).hexdigest() not in before
        assert (await _run(path)).returncode == 0
        assert path.read_text() == before


async def test_reports_a_publisher_that_does_not_answer_and_fills_in_the_rest(
    tmp_path: Path,
) -> None:
    path = tmp_path / "catalogue.json"
    async with serving() as origin:
        origin.texts["/sums"] = "nothing\n"
        origin.texts["/KEYS"] = "<html>Not found</html>"
        path.write_text(json.dumps(_data(origin.base)))
        done = await _run(path)
    assert done.returncode == 1
    assert 'does not list "published"' in done.stderr
    assert '/KEYS" is not a public key' in done.stderr
    tools = json.loads(path.read_text())["tools"]
    assert "digests" not in tools["published"]
    assert "key" not in tools["published"]["publicKey"]
    assert "digests" in tools["bare"]
