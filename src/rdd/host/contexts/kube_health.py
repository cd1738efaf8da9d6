# SPDX-License-Identifier: Apache-2.0
"""Decide whether our kube context replaces the user's current one.

Only a context that is missing or unhealthy is replaced. If its health cannot be determined,
it stays:

    a kubeconfig is unreadable                            stays
    it is ours already                                    stays
    there is no current context, or it does not exist     is replaced
    it has no cluster                                     is replaced
    its server does not respond within 3 s                is replaced
    its server responds with 5xx                          is replaced
    its server responds otherwise, also with 401 or 403   stays
    the TLS handshake fails                               stays
    its server is behind a proxy                          stays
    its authority or URL is invalid                       stays
"""

import base64
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from rdd.host.contexts import kube_contexts
from rdd.host.contexts.context_probe import Address, Verdict, probe_context
from rdd.host.errors import HostError


async def should_switch(
    paths: Sequence[Path], name: str, *, environment: Mapping[str, str]
) -> Verdict:
    """Return whether the context `name` should become the current one. Never raises."""
    try:
        current = kube_contexts.current(paths)
        if current == name:
            return Verdict(False, "it is the current context", current)
        if not current:
            return Verdict(True, "no context is in use")
        found = kube_contexts.lookup(paths, current)
    except HostError as error:
        return Verdict(False, str(error))
    if found is None:
        return Verdict(True, f'the context "{current}" or its cluster does not exist', current)
    path, cluster = found
    try:
        address, target, host = _address(cluster, path.parent, environment)
    except (OSError, ValueError) as error:
        return Verdict(False, f'the context "{current}" cannot be probed: {error}', current)
    who = f'the server of the context "{current}"'
    return await probe_context(who, address, target, current=current, host_header=host)


def _address(
    cluster: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> tuple[Address, str, str]:
    """Return address, path and Host header of the probe. Raises ValueError, OSError."""
    url = urlsplit(str(cluster.get("server") or ""))
    if url.scheme not in ("https", "http") or not url.hostname:
        raise ValueError("its cluster has no usable server URL")
    if cluster.get("proxy-url") or _is_proxied(url.scheme, url.hostname, environment):
        raise ValueError("its server is behind a proxy")
    target = url.path.rstrip("/") + "/healthz"
    if url.scheme == "http":
        return Address(host=url.hostname, port=url.port or 80), target, url.netloc
    context = ssl.create_default_context(cadata=_authority(cluster, folder))
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return Address(host=url.hostname, port=url.port or 443, tls=context), target, url.netloc


def _authority(cluster: Mapping[str, Any], folder: Path) -> str | None:
    if data := cluster.get("certificate-authority-data"):
        return base64.b64decode(str(data), validate=True).decode("ascii")
    if name := cluster.get("certificate-authority"):
        return (folder / str(name)).read_text()
    return None


def _is_proxied(scheme: str, host: str, environment: Mapping[str, str]) -> bool:
    """Return whether kubectl would use a proxy; it never does for localhost."""
    variables = {key.lower(): value for key, value in environment.items()}
    if not variables.get(f"{scheme}_proxy") or host in ("localhost", "127.0.0.1", "::1"):
        return False
    return not proxy_bypass_environment(host, {"no": variables.get("no_proxy", "")})
