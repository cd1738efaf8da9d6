# SPDX-License-Identifier: Apache-2.0
"""Decide whether our Docker context replaces the user's current one.

Only a context that is missing or unhealthy is replaced. If its health cannot be determined,
it stays:

    config.json is unreadable                             stays
    DOCKER_HOST or DOCKER_CONTEXT is set                  stays
    it is ours already                                    stays
    the current context does not exist                    is replaced
    its endpoint does not respond within 3 s              is replaced
    its engine responds with 5xx                          is replaced
    its engine responds with anything else                stays
    the TLS handshake fails                               stays
    its metadata or certificates are unreadable           stays
    it uses ssh or another unsupported scheme             stays
"""

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rdd.host.contexts import docker_contexts
from rdd.host.contexts.context_probe import Address, Verdict, probe_context
from rdd.host.errors import HostError

DEFAULT_ENDPOINT = "unix:///var/run/docker.sock"


async def should_switch(
    directory: Path,
    name: str,
    *,
    environment: Mapping[str, str],
    default_endpoint: str = DEFAULT_ENDPOINT,
) -> Verdict:
    """Return whether the context `name` should become the current one. Never raises."""
    for variable in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        if environment.get(variable):
            return Verdict(False, f"{variable} is set")
    try:
        current = docker_contexts.current(directory)
    except HostError as error:
        return Verdict(False, str(error))
    if current == name:
        return Verdict(False, "it is the current context", current)
    if current in ("", docker_contexts.DEFAULT):
        endpoint: dict[str, Any] = {"Host": default_endpoint}
        shown = "default"
    else:
        path = docker_contexts.metadata_path(directory, current)
        if not path.exists():
            return Verdict(True, f'the context "{current}" does not exist', current)
        shown = current
        try:
            endpoint = json.loads(path.read_bytes())["Endpoints"]["docker"]
            endpoint["Host"].strip()
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return Verdict(False, f'the metadata of the context "{shown}" is unreadable', current)
    try:
        address = _address(endpoint, docker_contexts.tls_directory(directory, current))
    except (OSError, ValueError) as error:
        return Verdict(False, f'the context "{shown}" cannot be probed: {error}', current)
    who = f'the engine of the context "{shown}"'
    return await probe_context(who, address, "/_ping", current=current)


def _address(endpoint: Mapping[str, Any], tls: Path) -> Address:
    """Return the address of an endpoint. Raises ValueError if it is unsupported, OSError."""
    url = urlsplit(str(endpoint["Host"]))
    if url.scheme == "unix" and url.path:
        return Address(path=url.path)
    if url.scheme not in ("tcp", "http", "https") or not url.hostname:
        raise ValueError(f"{url.scheme or 'no scheme'} is not supported")
    if not tls.is_dir() and url.scheme != "https":
        return Address(host=url.hostname, port=url.port or 2375)
    context = ssl.create_default_context()
    if (ca := tls / "ca.pem").exists():
        context.load_verify_locations(ca)
    if endpoint.get("SkipTLSVerify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if (tls / "cert.pem").exists():
        context.load_cert_chain(tls / "cert.pem", tls / "key.pem")
    return Address(host=url.hostname, port=url.port or 2376, tls=context)
