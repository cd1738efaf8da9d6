# SPDX-License-Identifier: Apache-2.0
"""Proxy, authorities and registries, and the driver choice."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trustme
import yaml

from rdd.controllers.app.app import driver_choice, network
from rdd.controllers.app.app.network import Network
from rdd.kinds.app import AppSpec
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import Availability


def of(**spec: Any) -> Network:
    return network.network_of(AppSpec.of({"running": True, **spec}))


def test_default_network_needs_no_files() -> None:
    found = of()
    assert found == network.DEFAULT_NETWORK
    assert network.proxy_environment(found) == {}
    assert (network.daemon_json(found, {}), network.registries_yaml(found)) == ("", "")
    assert network.hosts_toml(found) == {}


def test_http_proxy_is_the_default_for_https() -> None:
    found = network.proxy_environment(of(proxy={"httpProxy": "http://p:1", "noProxy": ["x.org"]}))
    assert found["HTTP_PROXY"] == found["https_proxy"] == "http://p:1"
    direct = found["NO_PROXY"].split(",")
    assert {"localhost", "127.0.0.1", "host.docker.internal", "x.org"} <= set(direct)
    assert ".svc" not in direct


def test_kubernetes_networks_bypass_the_proxy() -> None:
    spec = {"proxy": {"httpsProxy": "http://p:1"}, "kubernetes": {"enabled": True}}
    found = network.proxy_environment(of(**spec))
    assert {"10.42.0.0/16", "10.43.0.0/16", ".svc"} <= set(found["no_proxy"].split(","))
    assert "HTTP_PROXY" not in found


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://127.0.0.1:3128", "http://host.lima.internal:3128"),
        ("http://u:p@localhost", "http://u:p@host.lima.internal"),
        ("http://proxy:1", "http://proxy:1"),
    ],
)
def test_loopback_proxy_is_translated(url: str, inside: str) -> None:
    assert network.proxy_environment(Network(http_proxy=url))["HTTP_PROXY"] == inside


def test_invalid_authorities_are_ignored() -> None:
    good = trustme.CA().cert_pem.bytes().decode()
    begin = "-----BEGIN CERTIFICATE-----"
    broken = good.replace(begin, f"{begin}\n!!")
    found = of(certificates={"authorities": [good, "x", broken]})
    assert found.authorities == (good.strip() + "\n",)
    assert network.authority_problem(good) == ""
    assert network.authority_problem(broken).startswith("invalid certificate")


REGISTRIES = {
    "mirrors": [
        {"registry": "docker.io", "endpoints": ["https://a", "http://b:5000"]},
        {"registry": "ghcr.io", "endpoints": ["https://c"]},
    ],
    "insecure": ["b:5000", "r:1"],
}


def test_dockerd_gets_mirrors_of_docker_hub() -> None:
    assert json.loads(network.daemon_json(of(registries=REGISTRIES), {})) == {
        "registry-mirrors": ["https://a", "http://b:5000"],
        "insecure-registries": ["b:5000", "r:1"],
    }


def test_k3s_gets_all_mirrors() -> None:
    found = yaml.safe_load(network.registries_yaml(of(registries=REGISTRIES)))
    assert found["mirrors"]["ghcr.io"] == {"endpoint": ["https://c"]}
    assert found["mirrors"]["r:1"] == {"endpoint": ["https://r:1", "http://r:1"]}
    assert found["configs"]["r:1"] == {"tls": {"insecure_skip_verify": True}}


def test_containerd_gets_a_file_per_registry() -> None:
    import tomllib

    found = {k: tomllib.loads(v) for k, v in network.hosts_toml(of(registries=REGISTRIES)).items()}
    assert found["docker.io"]["server"] == "https://registry-1.docker.io"
    assert found["docker.io"]["host"]["http://b:5000"]["skip_verify"] is True
    assert "skip_verify" not in found["docker.io"]["host"]["https://a"]
    assert set(found) == {"docker.io", "ghcr.io", "b:5000", "r:1"}


# -- what runs the containers


def choose(works: str, *, wanted: str = "auto", **environment: str) -> Any:
    def probe(driver: str, environment: Mapping[str, str]) -> Availability:
        return Availability(driver, driver in works.split(), f"no {driver}", f"get {driver}")

    return driver_choice.choose(wanted, environment, probe=probe)


@pytest.mark.parametrize(
    ("works", "chosen"),
    [
        pytest.param("lima qemu host", "lima", id="Lima first"),
        pytest.param("qemu host", "host", id="host before QEMU"),
        pytest.param("qemu", "qemu", id="QEMU as a last resort"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_auto(works: str, chosen: str) -> None:
    assert choose(works).driver == chosen


def test_unknown_override_is_reported() -> None:
    assert choose("lima", RDD_VM_TYPE="xen").table() == (
        'auto  RDD_VM_TYPE="xen" is not a driver; known drivers: host, lima, qemu, vz'
    )


def test_requested_driver_is_used_or_reported() -> None:
    assert choose("lima qemu", wanted="qemu").driver == "qemu"
    refused = choose("lima", wanted="host")
    assert refused.driver == ""
    assert refused.table() == "host  no host; to change that: get host"


def test_environment_applies_to_auto_only() -> None:
    assert choose("lima qemu host", RDD_VM_TYPE="qemu").driver == "qemu"
    assert choose("lima qemu host", wanted="host", RDD_VM_TYPE="qemu").driver == "host"


def test_all_drivers_are_tried() -> None:
    tried = [answer.driver for answer in choose("").refused]
    assert sorted(tried) == sorted(catalog.DRIVERS)


def test_drivers_report_availability_of_this_host() -> None:
    for driver in ("host", "qemu"):
        answer = catalog.availability(driver, {"PATH": "/nonexistent"})
        assert answer.driver == driver
        if not answer.usable:
            assert answer.reason
