# SPDX-License-Identifier: Apache-2.0
"""Whether our kube context should take the place of the one the user has.

Only one that is missing or dead is replaced. Whenever we cannot find out, the user's
choice is taken for healthy and stays:

    a kubeconfig that cannot be read                      stays
    ours already                                          stays
    no current context, or one that does not exist        is replaced
    a context without a cluster                           is replaced
    nobody answers at its server within 3 s               is replaced
    the server answers 5xx                                is replaced
    it answers anything else, also 401 and 403            stays
    somebody is there whose TLS we cannot agree with      stays
    reached through a proxy                               stays
    an authority or a URL that cannot be read             stays
"""

import base64
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from rdd.host import kube_contexts
from rdd.host.context_probe import Address, Verdict, probe_context
from rdd.host.errors import HostError


async def should_switch(
    paths: Sequence[Path], name: str, *, environment: Mapping[str, str]
) -> Verdict:
    """Whether the context `name` should become the current one. Never raises."""
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
        return Verdict(False, f'the context "{current}" cannot be tried: {error}', current)
    who = f'the server of the context "{current}"'
    return await probe_context(who, address, target, current=current, host_header=host)


def _address(
    cluster: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> tuple[Address, str, str]:
    """Where to ask, for what, and under which name. Raises ValueError, OSError."""
    url = urlsplit(str(cluster.get("server") or ""))
    if url.scheme not in ("https", "http") or not url.hostname:
        raise ValueError("its cluster has no usable server URL")
    if cluster.get("proxy-url") or _is_proxied(url.scheme, url.hostname, environment):
        raise ValueError("its server is reached through a proxy")
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
    """Whether kubectl would go through a proxy; it never does for the machine itself."""
    variables = {key.lower(): value for key, value in environment.items()}
    if not variables.get(f"{scheme}_proxy") or host in ("localhost", "127.0.0.1", "::1"):
        return False
    return not proxy_bypass_environment(host, {"no": variables.get("no_proxy", "")})
