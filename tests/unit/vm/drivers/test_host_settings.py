# SPDX-License-Identifier: Apache-2.0
"""Engine settings of the driver `host`, and k3s."""

import json
from pathlib import Path

import pytest
from tests.programs import start_program

from rdd.host.errors import HostError
from rdd.vm.drivers import kubernetes_files
from rdd.vm.drivers.host import k3s, services, settings
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.services import EngineNetwork, Service
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template.model import CaCertificates, Provision, Template

RELEASE = "v1.33.7+k3s3"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
MOBY = {"CONTAINER_ENGINE": "moby"}
CLUSTER = {
    **MOBY,
    "KUBERNETES_ENABLED": "true",
    "KUBERNETES_RELEASE": RELEASE,
    "KUBERNETES_PORT": "7443",
    "HOST_INSTANCE_CONFIG": "/home/ann/k3s.yaml",
}


@pytest.fixture
def paths(tmp_path: Path) -> MachinePaths:
    return MachinePaths(InstanceDirectory(tmp_path / "rd"))


def data(path: str, content: str) -> Provision:
    return Provision(mode="data", path=path, content=content)


def dockerd(paths: MachinePaths, template: Template) -> Service:
    return services.moby(
        paths, template, EngineNetwork(), program=Path("/dockerd"), environment={"PATH": "/bin"}
    )


def test_dockerd_settings_are_merged_with_mandatory_ones(paths: MachinePaths) -> None:
    wanted = {"registry-mirrors": ["https://m"], "data-root": "/else"}
    template = Template(provision=(data(settings.DAEMON_JSON, json.dumps(wanted)),), param=MOBY)
    config = json.loads(dockerd(paths, template).config)
    assert config["registry-mirrors"] == ["https://m"]
    assert config["data-root"] == str(paths.data("docker"))


@pytest.mark.parametrize(
    "own",
    [{"log-driver": "journald"}, {"log-opts": {"max-size": "1g"}}, {"log-driver": "none"}],
)
def test_log_settings_of_a_template_replace_the_limits(
    paths: MachinePaths, own: dict[str, object]
) -> None:
    limits = settings.LOG_LIMITS.items()
    assert limits <= json.loads(dockerd(paths, Template(param=MOBY)).config).items()
    template = Template(provision=(data(settings.DAEMON_JSON, json.dumps(own)),), param=MOBY)
    config = json.loads(dockerd(paths, template).config)
    assert {name: config[name] for name in settings.LOG_LIMITS if name in config} == own


@pytest.mark.parametrize("text", ["{", "[]"])
def test_invalid_settings_are_reported(paths: MachinePaths, text: str) -> None:
    template = Template(provision=(data(settings.DAEMON_JSON, text),))
    with pytest.raises(HostError, match=r"/etc/docker/daemon\.json is not (a )?JSON"):
        dockerd(paths, template)


def test_only_proxy_variables_reach_the_engine(paths: MachinePaths) -> None:
    env = {"HTTPS_PROXY": "http://p", "no_proxy": "x", "COLOUR": "green"}
    found = dockerd(paths, Template(env=env)).environment
    assert (found["HTTPS_PROXY"], found["no_proxy"], "COLOUR" in found) == ("http://p", "x", False)


def test_authorities_are_added_to_those_of_the_host(paths: MachinePaths) -> None:
    service = dockerd(paths, Template(ca_certs=CaCertificates(certs=(PEM,))))
    path = settings.trust_file(paths)
    assert service.environment["SSL_CERT_FILE"] == str(path)
    assert service.files[path].endswith(PEM)
    assert "SSL_CERT_FILE" not in dockerd(paths, Template()).environment


# -- k3s


def program(path: Path, release: str = RELEASE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'k3s version {release} (0badcafe)'\n")
    path.chmod(0o755)


def test_k3s_is_found_in_the_cache_and_on_the_path(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    assert k3s.find_k3s(RELEASE, environment) is None
    program(tmp_path / "bin" / "k3s", "v1.30.1+k3s1")
    assert k3s.find_k3s(RELEASE, environment) is None
    program(tmp_path / "bin" / "k3s")
    assert k3s.find_k3s(RELEASE, environment) == tmp_path / "bin" / "k3s"
    cached = kubernetes_files.program_of(RELEASE, environment)
    assert cached == tmp_path / ".cache" / "rdd" / "k3s" / RELEASE / "k3s"
    program(cached)
    assert k3s.find_k3s(RELEASE, environment) == cached


def test_missing_k3s_is_reported_with_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    assert k3s.missing_k3s(RELEASE, environment) == f"k3s {RELEASE} is not installed"
    images, source = k3s.k3s_files(RELEASE, environment)
    assert (images.is_program, source.is_program) == (False, True)
    assert "releases/download/v1.33.7%2Bk3s3/k3s-airgap-images-" in images.url
    assert images.path.parent == source.path.parent
    assert "releases/download/v1.33.7%2Bk3s3/k3s" in source.url
    assert "releases/download/v1.33.7%2Bk3s3/sha256sum-" in source.checksum_url
    assert source.path == kubernetes_files.program_of(RELEASE, environment)
    program(tmp_path / "bin" / "k3s", "v1.30.1+k3s1")
    assert '/bin/k3s" is v1.30.1+k3s1)' in k3s.missing_k3s(RELEASE, environment)
    program(tmp_path / "bin" / "k3s")
    assert k3s.missing_k3s(RELEASE, environment) == ""
    assert k3s.k3s_files(RELEASE, environment) == ()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "needs root" in k3s.missing_k3s(RELEASE, environment)
    assert k3s.k3s_files("v9.9.9+k3s1", environment) == ()


def test_k3s_has_port_and_files_of_the_template(paths: MachinePaths, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    template = Template(param=CLUSTER, provision=(data(settings.REGISTRIES, "{}"),))
    assert k3s.k3s_service(paths, template, environment=environment) is None
    program(kubernetes_files.program_of(RELEASE, environment))
    service = k3s.k3s_service(paths, template, environment=environment)
    assert service is not None
    registries = paths.config("k3s-registries")
    assert json.loads(service.config) == {
        "https-listen-port": 7443,
        "write-kubeconfig": "/home/ann/k3s.yaml",
        "write-kubeconfig-mode": "600",
        "data-dir": str(paths.data("k3s")),
        "node-name": "rd",
        "docker": True,
        "private-registry": str(registries),
    }
    assert service.files == {registries: "{}"}
    other = Template(param={**CLUSTER, "CONTAINER_ENGINE": "containerd"})
    alone = k3s.k3s_service(paths, other, environment=environment)
    assert alone is not None and "docker" not in json.loads(alone.config)
    archive = kubernetes_files.release_directory(RELEASE, environment) / "k3s-airgap-images-x.tar"
    archive.write_bytes(b"images")
    alone = k3s.k3s_service(paths, other, environment=environment)
    assert alone is not None
    assert alone.links == {paths.data("k3s") / "agent" / "images" / archive.name: archive}
    off = Template(param={**CLUSTER, "KUBERNETES_ENABLED": "false"})
    assert k3s.k3s_service(paths, off, environment=environment) is None


def test_k3s_is_restarted_and_ends_on_sigterm(paths: MachinePaths, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    path = kubernetes_files.program_of(RELEASE, environment)
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/ran\n')
    path.chmod(0o755)
    template = Template(param={**CLUSTER, "CONTAINER_ENGINE": "containerd"})
    service = k3s.k3s_service(paths, template, environment=environment)
    assert service is not None
    with start_program(
        [str(service.program), *service.arguments], env=dict(service.environment)
    ) as process:
        ran = tmp_path / "ran"
        while not ran.exists() or len(ran.read_text().splitlines()) < 2:
            assert process.poll() is None
        assert ran.read_text().startswith(f"server --config {paths.config('k3s')}\n")
        process.terminate()
        assert process.wait() == 0
