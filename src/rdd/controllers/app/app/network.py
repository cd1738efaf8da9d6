# SPDX-License-Identifier: Apache-2.0
"""Proxy, authorities and registries of an App in the formats of their consumers.

The spec has each setting once; dockerd, containerd, k3s and programs with an environment
each need it in a format of their own. Everything here converts values to text;
`rdd.controllers.app.app.template` puts it into files.
"""

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from rdd.kinds.app import AppSpec

DOCKER_HUB = "docker.io"
_HUB_SERVER = "https://registry-1.docker.io"

_ALWAYS_DIRECT = (
    "localhost", "127.0.0.1", "::1",
    "host.docker.internal", "host.rancher-desktop.internal", "host.lima.internal",
)  # fmt: skip
_KUBERNETES_DIRECT = ("10.42.0.0/16", "10.43.0.0/16", ".svc", ".cluster.local")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Network:
    """Proxy, authorities and registries of a spec."""

    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: tuple[str, ...] = ()
    authorities: tuple[str, ...] = ()
    mirrors: tuple[tuple[str, tuple[str, ...]], ...] = ()
    insecure: tuple[str, ...] = ()


DEFAULT_NETWORK = Network()


def network_of(spec: AppSpec) -> Network:
    """Return the network settings of a spec; invalid authorities are ignored."""
    proxy = spec.proxy
    is_kubernetes = spec.kubernetes.enabled
    http = proxy.http_proxy
    https = proxy.https_proxy or http
    authorities = [pem for pem in spec.certificates.authorities if not authority_problem(pem)]
    direct: Sequence[str] = ()
    if http or https:
        more = _KUBERNETES_DIRECT if is_kubernetes else ()
        direct = (*_ALWAYS_DIRECT, *more, *proxy.no_proxy)
    return Network(
        http_proxy=http,
        https_proxy=https,
        no_proxy=tuple(dict.fromkeys(direct)),
        authorities=tuple(pem.strip() + "\n" for pem in authorities),
        mirrors=tuple((m.registry, tuple(m.endpoints)) for m in spec.registries.mirrors),
        insecure=tuple(spec.registries.insecure),
    )


def authority_problem(pem: str) -> str:
    """Return why a text is not a CA certificate; empty if it is one."""
    if "-----BEGIN CERTIFICATE-----" not in pem:
        return "not a PEM certificate"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        return f"invalid certificate: {error}"
    return ""


def proxy_environment(network: Network) -> dict[str, str]:
    """Return the variables of a proxy, in both spellings.

    The engine has its own network, in which the loopback of the host has another name.
    """
    found = {}
    for name, url in (("HTTP_PROXY", network.http_proxy), ("HTTPS_PROXY", network.https_proxy)):
        if url:
            found[name] = _from_guest(url)
    if not found:
        return {}
    found["NO_PROXY"] = ",".join(network.no_proxy)
    return {**found, **{name.lower(): value for name, value in found.items()}}


def daemon_json(network: Network, logs: Mapping[str, object]) -> str:
    """Return the content of dockerd's daemon.json with the bound of logs; empty if it needs none.

    dockerd supports mirrors of Docker Hub only. The proxy is not included: dockerd before
    version 23 does not start with that key.
    """
    settings: dict[str, object] = dict(logs)
    mirrors = [url for registry, urls in network.mirrors if registry == DOCKER_HUB for url in urls]
    if mirrors:
        settings["registry-mirrors"] = mirrors
    if network.insecure:
        settings["insecure-registries"] = list(network.insecure)
    return json.dumps(settings, indent=2) + "\n" if settings else ""


def registries_yaml(network: Network) -> str:
    """Return the content of k3s' registries.yaml, in JSON; empty if it needs none."""
    mirrors = {registry: {"endpoint": list(urls)} for registry, urls in network.mirrors}
    configs = {}
    for host in network.insecure:
        mirrors.setdefault(host, {"endpoint": [f"https://{host}", f"http://{host}"]})
        configs[host] = {"tls": {"insecure_skip_verify": True}}
    found: dict[str, Mapping[str, object]] = {}
    if mirrors:
        found["mirrors"] = mirrors
    if configs:
        found["configs"] = configs
    return json.dumps(found, indent=2) + "\n" if found else ""


def hosts_toml(network: Network) -> dict[str, str]:
    """Return the content of containerd's certs.d/<registry>/hosts.toml, by registry."""
    found = {}
    mirrors = dict(network.mirrors)
    for registry in dict.fromkeys((*mirrors, *network.insecure)):
        server = _HUB_SERVER if registry == DOCKER_HUB else f"https://{registry}"
        lines = [f"server = {json.dumps(server)}\n"]
        for url in mirrors.get(registry, ()):
            lines.append(f"\n[host.{json.dumps(url)}]\n")
            lines.append('  capabilities = ["pull", "resolve"]\n')
            if (urlsplit(url).netloc or url) in network.insecure:
                lines.append("  skip_verify = true\n")
        if registry in network.insecure:
            for scheme in ("https", "http"):
                lines.append(f"\n[host.{json.dumps(f'{scheme}://{registry}')}]\n")
                lines.append('  capabilities = ["pull", "resolve", "push"]\n')
                lines.append("  skip_verify = true\n")
        found[registry] = "".join(lines)
    return found


def _from_guest(url: str) -> str:
    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK:
        return url
    login, at, _ = parts.netloc.rpartition("@")
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit(parts._replace(netloc=f"{login}{at}host.lima.internal{port}"))
