# SPDX-License-Identifier: Apache-2.0
"""NetworkCreateRequest: creates a network.

A label of the network has the UID of the request, so the request is idempotent: names of
networks are not unique in the engine.
"""

import json

from rdd.api.types import Object
from rdd.controllers.containers.container_create import REQUEST, check_namespace
from rdd.controllers.containers.requests import Report, RequestFailed
from rdd.engine import Docker, EngineError
from rdd.kinds.network import NetworkCreateRequest, NetworkCreateSpec


class CreateNetwork:
    """Executes requests for networks."""

    def __init__(self, docker: Docker) -> None:
        self._docker = docker

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Create the network and return its ID, which is the name of its mirror."""
        spec = NetworkCreateRequest.of(obj).spec
        check_namespace(spec.namespace)
        uid = obj["metadata"]["uid"]
        filters = json.dumps({"label": [f"{REQUEST}={uid}"]})
        found = await self._docker.call("GET", "/networks", {"filters": filters})
        if found:
            return {"name": str(found[0]["Id"])}
        try:
            made = await self._docker.call("POST", "/networks/create", {}, _body(spec, uid))
        except EngineError as error:
            if error.status == 403:  # an invalid range or driver option
                raise RequestFailed("Invalid", error.message) from error
            raise
        return {"name": str(made["Id"])}


def _body(spec: NetworkCreateSpec, uid: str) -> Object:
    body: Object = {
        "Name": spec.name,
        "CheckDuplicate": True,
        "Driver": spec.driver,
        "Internal": spec.internal,
        "EnableIPv6": spec.ipv6,
        "Labels": {**spec.labels, REQUEST: uid},
    }
    if spec.subnet or spec.gateway:
        given = {"Subnet": spec.subnet, "Gateway": spec.gateway}
        body["IPAM"] = {"Config": [{name: value for name, value in given.items() if value}]}
    return body
