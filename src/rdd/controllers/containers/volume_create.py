# SPDX-License-Identifier: Apache-2.0
"""VolumeCreateRequest: makes a volume.

The volume carries the request's UID in a label, so after a crash it is found
instead of made again; the engine has no other way to tell a volume without a
name from the next one.
"""

from rdd.api.types import Object
from rdd.controllers.containers.container_create import REQUEST, check_namespace
from rdd.controllers.containers.requests import Report
from rdd.engine import Docker
from rdd.kinds.volume import VolumeCreateRequest


class CreateVolume:
    """Carries out requests for volumes."""

    def __init__(self, docker: Docker) -> None:
        self._docker = docker

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Make the volume."""
        spec = VolumeCreateRequest.of(obj).spec
        check_namespace(spec.namespace)
        uid = obj["metadata"]["uid"]
        if not await self._docker.volumes(label=f"{REQUEST}={uid}"):
            await self._docker.create_volume(spec.name, driver=spec.driver, labels={REQUEST: uid})
        return {}
