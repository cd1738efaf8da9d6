# SPDX-License-Identifier: Apache-2.0
"""ContainerCreateRequest: creates a container, and starts it if it should run.

A label of the container has the UID of the request, so the request is idempotent:
after a crash it finds the container instead of creating another one. A container that
cannot be started is removed: a failed request leaves nothing behind.
"""

from typing import Final

from rdd.api.types import Object
from rdd.controllers.containers.requests import Report, RequestFailed
from rdd.engine import ContainerConfig, Docker, EngineFailure
from rdd.kinds.container import ContainerCreateRequest

REQUEST: Final = "io.rancherdesktop.request"
"""The label of a container or volume with the UID of the request that created it."""


class CreateContainer:
    """Executes requests for containers."""

    def __init__(self, docker: Docker) -> None:
        self._docker = docker

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Create the container and return its ID, which is the name of its mirror."""
        spec = ContainerCreateRequest.of(obj).spec
        check_namespace(spec.namespace)
        uid = obj["metadata"]["uid"]
        id_ = await self._find_created(uid)
        if not id_:
            config = ContainerConfig(
                spec.image,
                path=spec.path,
                args=spec.args,
                labels={**spec.labels, REQUEST: uid},
                ports={
                    port.name: [(bound.host_ip, bound.host_port) for bound in port.bindings]
                    for port in spec.ports
                },
            )
            id_ = await self._docker.create_container(config, name=spec.name)
        if spec.state == "running":
            try:
                await self._docker.start_container(id_)
            except EngineFailure:
                await self._docker.remove_container(id_, force=True)
                raise
        return {"name": id_}

    async def _find_created(self, uid: str) -> str:
        found = await self._docker.containers(label=f"{REQUEST}={uid}")
        return str(found[0]["Id"]) if found else ""


def check_namespace(namespace: str) -> None:
    """Raise RequestFailed unless the engine has the namespace."""
    if namespace not in ("", "moby"):
        raise RequestFailed("NotFound", f'the engine has no namespace "{namespace}"')
