# SPDX-License-Identifier: Apache-2.0
"""Clients of the container engine, over its own unix socket.

    async with Docker(Path("/run/docker.sock")) as docker:
        for container in await docker.containers():
            print(container["Names"])
        async with docker.events() as events:
            async for event in events:
                print(event.type, event.action, event.id)

    errors                 what can go wrong
    http                   HTTP/1.1 on a unix socket: answers, streams, hijacked connections
    docker, records        the Docker API
    containerd             containerd's own API
    grpc, protobuf         what that is spoken over
    frames                 stdout and stderr in one stream
    references             names of images
    credentials            who we are to a registry

What the engine answers stays as plain dicts of its JSON: its members differ by
version, and who mirrors them decides what an absent one means. What is asked of
it is typed. Nothing here knows Kubernetes.
"""

from rdd.engine.docker import Docker
from rdd.engine.errors import (
    Conflict,
    EngineError,
    EngineFailure,
    NotFound,
    Unintelligible,
    Unreachable,
    UnsupportedVersion,
)
from rdd.engine.frames import Chunk
from rdd.engine.http import Hijacked
from rdd.engine.records import ContainerConfig, EngineEvent, ExecConfig, Progress

__all__ = [
    "Chunk",
    "Conflict",
    "ContainerConfig",
    "Docker",
    "EngineError",
    "EngineEvent",
    "EngineFailure",
    "ExecConfig",
    "Hijacked",
    "NotFound",
    "Progress",
    "Unintelligible",
    "Unreachable",
    "UnsupportedVersion",
]
