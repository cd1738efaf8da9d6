# SPDX-License-Identifier: Apache-2.0
"""The template of the App's virtual machine, compared with golden files.

`python -m tests.unit.controllers.test_app_template` rewrites the files; review the
difference before you commit it.
"""

import dataclasses
import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.programs import run_program

from rdd.controllers.app.app import scripts, template
from rdd.controllers.app.app.network import Network
from rdd.controllers.app.app.template import (
    DesiredMachine,
    TemplateInputs,
    compare,
    spec_hash,
    text_of,
)
from rdd.controllers.app.k3s_versions_table import CHANNELS, RELEASES, VERSIONS
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.vm import template as lima

GOLDEN = Path(__file__).parents[2] / "data" / "app_templates"
HOME = Path("/home/ann")
NETWORK = Network(
    http_proxy="http://127.0.0.1:3128",
    https_proxy="http://u:p@proxy.example.com:3128",
    no_proxy=("localhost", "10.0.0.0/8"),
    authorities=("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",),
    mirrors=(("docker.io", ("https://mirror:5000",)), ("ghcr.io", ("http://m2",))),
    insecure=("reg.example.com:5000",),
)
CLUSTERS = {
    "": DesiredMachine(engine="moby"),
    "k3s": DesiredMachine(engine="moby", kubernetes="1.33.7", kubernetes_port=7443),
}


def inputs_for(
    driver: str, engine: str, cluster: str, network: str, logs: str = ""
) -> TemplateInputs:
    is_machine = driver != "host"
    machine = dataclasses.replace(
        CLUSTERS[cluster],
        engine=engine,
        cpus=2 if is_machine else 0,
        memory=4 << 30 if is_machine else 0,
        network=NETWORK if network else Network(),
    )
    return TemplateInputs(
        driver=driver,
        machine=machine,
        home=HOME,
        docker_socket=HOME / ".rd2" / "docker.sock",
        k3s_config=HOME / ".local" / "share" / "rancher-desktop-2" / "k3s.yaml",
        k3s_releases=HOME / ".cache" / "rdd" / "k3s",
        kept_logs=Path("/logs") if logs and is_machine else None,
    )


COMBINATIONS = [
    "-".join(filter(None, parts))
    for parts in itertools.product(
        ("lima", "qemu", "host"), ("moby", "containerd"), ("", "k3s"), ("", "network")
    )
] + ["lima-moby-k3s-logs"]


def inputs_of(name: str) -> TemplateInputs:
    driver, engine, *rest = name.split("-")
    return inputs_for(driver, engine, "k3s" if "k3s" in rest else "",
                      "network" if "network" in rest else "",
                      "logs" if "logs" in rest else "")  # fmt: skip


@pytest.mark.parametrize("name", COMBINATIONS)
def test_template_matches_the_golden_file_and_is_valid(name: str) -> None:
    text = text_of(inputs_of(name))
    assert text == (GOLDEN / f"{name}.yaml").read_text()
    lima.validate(text, driver=inputs_of(name).driver)


def test_golden_files_match_the_combinations() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(COMBINATIONS)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_no_port_is_fixed(name: str) -> None:
    inputs = inputs_of(name)
    ports = [rule.guest_port for rule in template.template_of(inputs).port_forwards]
    assert {port for port in ports if port} <= {inputs.machine.kubernetes_port}
    assert "6443" not in text_of(inputs)


def test_two_instances_share_nothing() -> None:
    app = App.of({
        "metadata": {"name": "app"},
        "spec": {"running": True, "containerEngine": {"name": "moby"},
                 "kubernetes": {"enabled": True, "version": "1.33.7"}},
        "status": {"kubernetesPort": 7443},
    })  # fmt: skip
    first, second = (
        template.inputs_of(app, "qemu", Instance(suffix, home=HOME), home=HOME, environment={})
        for suffix in ("2", "3")
    )
    assert first.docker_socket != second.docker_socket
    assert first.k3s_config != second.k3s_config


def test_kubernetes_without_a_port_is_not_rendered_yet() -> None:
    spec = {"running": True, "kubernetes": {"enabled": True, "version": "1.33.7"}}
    app = App.of({"metadata": {"name": "app"}, "spec": spec})
    inputs = template.inputs_of(app, "qemu", Instance("2", home=HOME), home=HOME, environment={})
    assert inputs.machine.kubernetes == ""


@pytest.mark.parametrize("version", VERSIONS)
def test_template_has_the_full_release(version: str) -> None:
    inputs = inputs_of("qemu-moby-k3s")
    machine = dataclasses.replace(inputs.machine, kubernetes=version)
    made = template.template_of(dataclasses.replace(inputs, machine=machine))
    assert made.param["KUBERNETES_RELEASE"] == VERSIONS[version]
    assert made.param["KUBERNETES_VERSION"] == version


def test_version_table() -> None:
    assert len(RELEASES) == 35
    later = [release for release in RELEASES if not release.endswith("+k3s1")]
    assert later == ["v1.32.11+k3s3", "v1.33.7+k3s3", "v1.34.3+k3s3", "v1.35.0+k3s3"]
    assert set(CHANNELS.values()) <= set(VERSIONS)
    assert "1.34.0" not in VERSIONS


# -- differences


def test_same_template_does_not_differ() -> None:
    inputs = inputs_of("qemu-moby")
    assert compare(text_of(inputs), inputs) == "none"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"engine": "containerd"}, id="engine"),
        pytest.param({"cpus": 3}, id="cpus"),
        pytest.param({"memory": 3 << 30}, id="memory"),
        pytest.param({"kubernetes": "1.34.6", "kubernetes_port": 1}, id="kubernetes"),
        pytest.param({"network": NETWORK}, id="network"),
    ],
)
def test_changed_spec_is_detected(change: dict[str, Any]) -> None:
    old = inputs_of("qemu-moby")
    new = dataclasses.replace(old, machine=dataclasses.replace(old.machine, **change))
    assert compare(text_of(old), new) == "spec"
    assert spec_hash(old) != spec_hash(new)


def test_kept_logs_and_upgrades_are_not_spec_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = inputs_of("lima-moby-k3s-logs")
    without = dataclasses.replace(inputs, kept_logs=None)
    assert compare(text_of(without), inputs) == "upgrade"
    old = text_of(inputs)
    monkeypatch.setattr(scripts, "SET_UP", scripts.SET_UP + "# newer\n")
    assert compare(old, inputs) == "upgrade"


def test_edited_template_is_detected() -> None:
    inputs = inputs_of("qemu-moby")
    text = text_of(inputs)
    assert compare(text + "plain: true\n", inputs) == "edited"
    assert compare(text.partition("\n")[2], inputs) == "edited"
    assert compare("", inputs) == "edited"


@pytest.mark.parametrize("script", [scripts.SET_UP, scripts.KEEP_LOGS, scripts.WAIT_FOR_KUBERNETES])
def test_scripts_are_valid_shell(script: str) -> None:
    shell = shutil.which("dash") or "/bin/sh"
    done = run_program([shell, "-n"], input=script)
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name in COMBINATIONS:
        (GOLDEN / f"{name}.yaml").write_text(text_of(inputs_of(name)))
