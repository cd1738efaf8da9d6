# SPDX-License-Identifier: Apache-2.0
"""Readiness probe of a running control plane, over HTTPS.

One connection, a few small requests, the standard library only: commands that wait for the
daemon do not load an asynchronous client. The authority in the kubeconfig authenticates the
server, so that another program on the same port is detected.
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
    """The control plane is not ready; a retry may succeed."""

    def __init__(self, why: str, *, status: int = 0) -> None:
        super().__init__(why)
        self.status = status
        """The status of the HTTP response; 0 without one."""


class Probe:
    """One connection to the control plane of an instance, closed after the block."""

    def __init__(self, instance: Instance, *, timeout_s: float = TIMEOUT_S) -> None:
        """Load the kubeconfig. Raises NotReady while it is missing or unusable."""
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
        """Return if the control plane is ready. Raises NotReady, or ServiceError: do not retry.

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
        """Return the JSON object at a path. Raises like `check`."""
        try:
            found = json.loads(self.text(path))
        except ValueError as error:
            raise NotReady(f"the response to {path} is not JSON") from error
        return found if isinstance(found, dict) else {}

    def post(self, path: str) -> None:
        """Send an empty POST. Raises like `check`."""
        self.text(path, method="POST")

    def text(self, path: str, *, method: str = "GET") -> str:
        """Return the text at a path. Raises like `check`."""
        try:
            self._http.request(method, path, headers={"Authorization": f"Bearer {self._token}"})
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
            raise NotReady(f"{path} responds with {response.status}", status=response.status)
        return body


def _connect(connection: ConnectionConfig, timeout_s: float) -> http.client.HTTPConnection:
    host = connection.server.partition("://")[2]
    context = client_context(connection)
    return http.client.HTTPSConnection(host, timeout=timeout_s, context=context)


def _rdd_version(git_version: str) -> str:
    """Return the part after the Kubernetes version, or all of it without one."""
    return git_version.partition(_VERSION_MARK)[2] or git_version
