# SPDX-License-Identifier: Apache-2.0
"""Asking a running control plane, over its own HTTPS door, whether it is ready.

One connection, a few small requests, the standard library only: commands that wait
for the daemon should not pay for an asynchronous client. The kubeconfig leads to
the server and proves, by its authority, that it is ours and not a stranger on the
same port.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from rdd.api import names
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError, load
from rdd.client.tls import client_context
from rdd.daemon.managers.discovery import CONFIG_MAP_PATH
from rdd.daemon.service.errors import ServiceError, VersionMismatch
from rdd.instance import Instance

TIMEOUT_S = 15.0
_VERSION_MARK = "+rdd-"  # between the Kubernetes version and ours


class NotReady(Exception):
    """The control plane does not answer as a ready one does; ask again."""

    def __init__(self, why: str, *, status: int = 0) -> None:
        super().__init__(why)
        self.status = status
        """Of the HTTP answer; 0 if there was none."""


class Probe:
    """One connection to the control plane of an instance, closed after the block."""

    def __init__(self, instance: Instance, *, timeout_s: float = TIMEOUT_S) -> None:
        """Raises NotReady while there is no kubeconfig that can be used."""
        try:
            connection = load(instance.config)
            self._http = _connect(connection, timeout_s)
        except KubeconfigError as error:
            raise NotReady(str(error)) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise NotReady(f'"{instance.config}" cannot be used: {error}') from error
        self._instance = instance
        self._token = connection.token

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def check(self, *, version: str) -> None:
        """Return if the control plane is ready; raises NotReady, or ServiceError for good.

        An empty version is not compared.
        """
        found = _rdd_version(str(self.get("/version").get("gitVersion") or ""))
        if version and found != version:
            raise VersionMismatch(self._instance.name, running=found, ours=version)
        self.text("/readyz")
        annotations = self.get(CONFIG_MAP_PATH).get("metadata", {}).get("annotations") or {}
        if annotations.get(names.READY) != "true":
            raise NotReady("the controllers are not ready")

    def get(self, path: str) -> Mapping[str, Any]:
        """The JSON object at a path. Raises NotReady, or ServiceError for good."""
        try:
            found = json.loads(self.text(path))
        except ValueError as error:
            raise NotReady(f"the response to {path} is not JSON") from error
        return found if isinstance(found, dict) else {}

    def text(self, path: str) -> str:
        """The text at a path. Raises NotReady, or ServiceError for good."""
        try:
            self._http.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            response = self._http.getresponse()
            body = response.read().decode("utf-8", "replace")
        except ssl.SSLCertVerificationError as error:
            raise ServiceError(
                f"the server at {self._http.host}:{self._http.port} is not "
                f'"{self._instance.name}": {error.verify_message}'
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise NotReady(str(error)) from error
        if response.status != 200:
            raise NotReady(f"{path} answers {response.status}", status=response.status)
        return body


def _connect(connection: ConnectionConfig, timeout_s: float) -> http.client.HTTPConnection:
    host = connection.server.partition("://")[2]
    context = client_context(connection)
    return http.client.HTTPSConnection(host, timeout=timeout_s, context=context)


def _rdd_version(git_version: str) -> str:
    """Ours behind that of Kubernetes, or all of it if there is none."""
    return git_version.partition(_VERSION_MARK)[2] or git_version
