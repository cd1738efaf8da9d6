# SPDX-License-Identifier: Apache-2.0
"""Kubernetes on this host: k3s beside the engine, in the same namespaces.

It runs if the template's param `KUBERNETES_ENABLED` is `true` and the program of the release
`KUBERNETES_RELEASE` is in the cache or on the PATH. Nothing is downloaded here: `k3s_files`
describes the files to whoever may fetch them. Without the program the engine runs alone.

The end of k3s must not end the engine: a shell starts k3s when the engine's socket exists, and
restarts it when it ends.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rdd.host.commands import run_blocking
from rdd.host.errors import HostError
from rdd.vm.drivers import kubernetes_files
from rdd.vm.drivers.host import settings
from rdd.vm.drivers.host.commands import find
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.services import DOCKER_SOCKET, Service, engine_of, inherited_environment
from rdd.vm.drivers.protocol import ProgramSource
from rdd.vm.template.model import Template

_VERSION_S = 10.0
_SHELL = Path("/bin/sh")
_RESTART_LOOP = """\
trap 'kill $child 2>/dev/null; wait $child; exit 0' TERM
while :; do
    if [ -z "$2" ] || [ -S "$2" ]; then "$0" server --config "$1" & child=$!; wait $child; fi
    sleep 1 & child=$!; wait $child
done
"""


def is_wanted(template: Template) -> bool:
    """Return whether a template enables Kubernetes."""
    return template.param.get("KUBERNETES_ENABLED") == "true"


def find_k3s(release: str, environment: Mapping[str, str]) -> Path | None:
    """Return the program of a release; None if it is not installed."""
    if kubernetes_files.has_program(release, environment):
        return kubernetes_files.program_of(release, environment)
    found = find("k3s", environment)
    return found if found is not None and _release_of(found) == release else None


def missing_k3s(release: str, environment: Mapping[str, str]) -> str:
    """Return why a release cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return 'Kubernetes needs root with the type "host"; choose a virtual machine instead'
    if find_k3s(release, environment) is not None:
        return ""
    other = find("k3s", environment)
    why = f"k3s {release} is not installed"
    return why if other is None else f'{why} ("{other}" is {_release_of(other) or "no k3s"})'


def k3s_files(release: str, environment: Mapping[str, str]) -> Sequence[ProgramSource]:
    """Return the files of a missing release; empty if it is there or cannot run here."""
    if os.geteuid() != 0 or find_k3s(release, environment) is not None:
        return ()
    return kubernetes_files.missing_files(release, environment)


def k3s_service(
    paths: MachinePaths, template: Template, *, environment: Mapping[str, str]
) -> Service | None:
    """Return the service k3s; None if it is disabled or not installed."""
    param = template.param
    program = find_k3s(param.get("KUBERNETES_RELEASE", ""), environment)
    if not is_wanted(template) or program is None:
        return None
    is_docker = engine_of(template) == "moby"
    config: dict[str, object] = {
        "https-listen-port": int(param["KUBERNETES_PORT"]),
        "write-kubeconfig": param["HOST_INSTANCE_CONFIG"],
        "write-kubeconfig-mode": "600",
        "data-dir": str(paths.data("k3s")),
        "node-name": paths.directory.name,
    }
    if is_docker:
        config["docker"] = True
    files = settings.files_of(template, paths)
    if registries := settings.file_of(template, settings.REGISTRIES):
        path = paths.config("k3s-registries")
        config["private-registry"] = str(path)
        files[path] = registries
    links: dict[Path, Path] = {}
    images = kubernetes_files.images_of(param["KUBERNETES_RELEASE"], environment)
    if images is not None and not is_docker:  # its own containerd loads what is there
        links[paths.data("k3s") / "agent" / "images" / images.name] = images
    socket = DOCKER_SOCKET if is_docker else ""
    return Service(
        name="k3s",
        program=_SHELL,
        arguments=("-c", _RESTART_LOOP, str(program), str(paths.config("k3s")), socket),
        config=json.dumps(config, indent=2) + "\n",  # JSON is YAML
        socket="",
        environment={
            **inherited_environment(environment),
            **settings.environment_of(template, paths),
        },
        files=files,
        links=links,
    )


def _release_of(program: Path) -> str:
    """Return the version that a program prints, e.g. `v1.33.7+k3s3`; empty without one."""
    try:
        words = run_blocking(program, "--version", timeout_s=_VERSION_S).output.split()
    except HostError:
        return ""
    return words[2] if words[:2] == ["k3s", "version"] and len(words) > 2 else ""
