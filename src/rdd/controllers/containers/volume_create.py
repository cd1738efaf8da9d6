# SPDX-License-Identifier: Apache-2.0
"""VolumeCreateRequest: creates a volume.

A label of the volume has the UID of the request, so the request is idempotent; a
volume without a name could not be identified otherwise.
"""

from rdd.api.types import Object
from rdd.controllers.containers.container_create import REQUEST, check_namespace
from rdd.controllers.containers.requests import Report
from rdd.engine import Docker
from rdd.kinds.volume import VolumeCreateRequest


class CreateVolume:
    """Executes requests for volumes."""

    def __init__(self, docker: Docker) -> None:
        self._docker = docker

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Create the volume."""
        spec = VolumeCreateRequest.of(obj).spec
        check_namespace(spec.namespace)
        uid = obj["metadata"]["uid"]
        if not await self._docker.volumes(label=f"{REQUEST}={uid}"):
            await self._docker.create_volume(spec.name, driver=spec.driver, labels={REQUEST: uid})
        return {}
