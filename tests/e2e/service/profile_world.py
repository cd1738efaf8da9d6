# SPDX-License-Identifier: Apache-2.0
"""A home whose commands see a private /etc/rancher-desktop, so the machine's own is not touched."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.service.service_world import Done, World

_WRAPPER = """#!/bin/sh
exec {unshare} --mount --propagation private sh -c '
mount -t tmpfs none {private} && mkdir {private}/upper {private}/work &&
mount -t overlay overlay -o lowerdir=/etc,upperdir={private}/upper,workdir={private}/work /etc &&
mkdir -p /etc/rancher-desktop && mount --bind {etc} /etc/rancher-desktop || exit 99
exec "$@"' sh {real} "$@"
"""


@dataclass
class Profiled:
    """A home, and a system directory for profiles that its commands see."""

    world: World
    etc: Path

    @property
    def path(self) -> str:
        """The path of the profile as messages have it."""
        return "/etc/rancher-desktop/rancher-desktop-2.yaml"

    def write(self, text: str) -> None:
        (self.etc / "rancher-desktop-2.yaml").write_text(text)

    def remove(self) -> None:
        (self.etc / "rancher-desktop-2.yaml").unlink()

    def create(self, obj: dict[str, Any]) -> Done:
        manifest = self.world.home / "manifest.json"
        manifest.write_text(json.dumps(obj))
        return self.world.try_rdd("ctl", "create", "-f", str(manifest))

    def app(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.world.kubectl("get", "app", "app", "-o", "json"))
        return found

    def settled(self) -> tuple[str, str]:
        conditions = (self.app().get("status") or {}).get("conditions") or []
        found = [c for c in conditions if c["type"] == "Settled"]
        return (found[0]["reason"], found[0]["message"]) if found else ("", "")

    def until_not_allowed(self) -> None:
        self.world.until(lambda: self.settled()[0] == "NotAllowed")
        assert f"spec.kubernetes.enabled is locked to false by {self.path}:4" in self.settled()[1]
        # Nothing was created for it.
        assert json.loads(self.world.kubectl("get", "limavm", "-A", "-o", "json"))["items"] == []


def with_private_etc(world: World, directory: Path, unshare: Path) -> Iterator[Profiled]:
    """The body of a fixture: the commands of a home see a system directory of their own."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a private /etc")
    etc, private, programs = (directory / name for name in ("etc", "private", "bin"))
    for path in (etc, private, programs):
        path.mkdir(mode=0o755)
    for name in ("rdd", "app-controller"):
        wrapper = programs / name
        real = world.script.with_name(name)
        wrapper.write_text(_WRAPPER.format(unshare=unshare, private=private, etc=etc, real=real))
        wrapper.chmod(0o755)
    yield Profiled(replace(world, script=programs / "rdd"), etc)
    assert not Path("/etc/rancher-desktop").exists()
