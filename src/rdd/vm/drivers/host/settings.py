# SPDX-License-Identifier: Apache-2.0
"""What a template wants its engine to be set to, without a guest to write it into.

A virtual machine gets its settings as files (`provision` with mode `data`). This driver
writes no file outside of its directory; it takes the text of the files it knows from the
template and hands it to the programs that would read them:

    /etc/docker/daemon.json             dockerd, beside what it must be set to
    /etc/rancher/k3s/registries.yaml    k3s
    the proxy in env                    both, as their environment
    caCerts                             both, together with the authorities of this machine
"""

import json
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.template.model import Template

DAEMON_JSON = "/etc/docker/daemon.json"
REGISTRIES = "/etc/rancher/k3s/registries.yaml"

_PROXY = ("http_proxy", "https_proxy", "no_proxy")
_BUNDLES = (  # of Debian, Fedora, openSUSE, Alpine
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def file_of(template: Template, path: str) -> str:
    """The text a template would write to a path in a guest; empty if it has none."""
    found = [item.content or "" for item in template.provision if item.path == path]
    return found[-1] if found else ""


def engine_settings(template: Template) -> dict[str, Any]:
    """What the template says about dockerd. Raises HostError if that is no JSON object."""
    text = file_of(template, DAEMON_JSON)
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise HostError(f"the template's {DAEMON_JSON} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise HostError(f"the template's {DAEMON_JSON} is no JSON object")
    return found


def environment_of(template: Template, paths: MachinePaths) -> dict[str, str]:
    """What the template adds to the environment of the programs; the rest of `env` is a shell's."""
    found = {name: value for name, value in template.env.items() if name.lower() in _PROXY}
    if template.ca_certs.certs:
        found["SSL_CERT_FILE"] = str(trust_file(paths))
    return found


def files_of(template: Template, paths: MachinePaths) -> dict[Path, str]:
    """The files the programs read besides their configuration."""
    if not template.ca_certs.certs:
        return {}
    return {trust_file(paths): _system_authorities() + "".join(template.ca_certs.certs)}


def trust_file(paths: MachinePaths) -> Path:
    """Whom the programs trust, if it is not just whom this machine does."""
    return paths.directory.path / "authorities.pem"


def _system_authorities() -> str:
    for name in _BUNDLES:
        try:
            return Path(name).read_text().rstrip() + "\n"
        except OSError:
            continue
    return ""
