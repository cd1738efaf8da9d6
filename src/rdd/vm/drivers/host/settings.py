# SPDX-License-Identifier: Apache-2.0
"""Engine settings from a template, without a guest that has files for them.

A virtual machine gets its settings as files (`provision` with mode `data`). This driver
writes no file outside its directory; it extracts the content of certain files from the
template and passes it to the programs that would read them:

    /etc/docker/daemon.json             dockerd, merged with its mandatory settings
    /etc/rancher/k3s/registries.yaml    k3s
    the proxy in env                    both, as environment variables
    caCerts                             both, together with the authorities of this host
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rdd.base.container_logs import log_settings
from rdd.host.errors import HostError
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.template.model import Template

LOG_LIMITS: Mapping[str, Any] = log_settings()
"""The bound of the log of each container, unless the template has one."""
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
    """Return the text that a template writes to a path in a guest; empty without one."""
    found = [item.content or "" for item in template.provision if item.path == path]
    return found[-1] if found else ""


def engine_settings(template: Template) -> dict[str, Any]:
    """Return the template's settings for dockerd, and limits of logs unless it sets others.

    Raises HostError unless they are a JSON object.
    """
    text = file_of(template, DAEMON_JSON)
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise HostError(f"the template's {DAEMON_JSON} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise HostError(f"the template's {DAEMON_JSON} is not a JSON object")
    if found.keys() & LOG_LIMITS.keys():  # options of one log driver are errors of another
        return found
    return {**LOG_LIMITS, **found}


def environment_of(template: Template, paths: MachinePaths) -> dict[str, str]:
    """Return the proxy and trust variables; the rest of `env` is for shells only."""
    found = {name: value for name, value in template.env.items() if name.lower() in _PROXY}
    if template.ca_certs.certs:
        found["SSL_CERT_FILE"] = str(trust_file(paths))
    return found


def files_of(template: Template, paths: MachinePaths) -> dict[Path, str]:
    """Return the files that programs read besides their configuration."""
    if not template.ca_certs.certs:
        return {}
    return {trust_file(paths): _system_authorities() + "".join(template.ca_certs.certs)}


def trust_file(paths: MachinePaths) -> Path:
    """Return the path of the CA bundle, which exists if the template adds authorities."""
    return paths.directory.path / "authorities.pem"


def _system_authorities() -> str:
    for name in _BUNDLES:
        try:
            return Path(name).read_text().rstrip() + "\n"
        except OSError:
            continue
    return ""
