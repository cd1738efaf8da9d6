# SPDX-License-Identifier: Apache-2.0
"""Clients of container engines, over their unix sockets.

    async with Docker(Path("/run/docker.sock")) as docker:
        for container in await docker.containers():
            print(container["Names"])
        async with docker.events() as events:
            async for event in events:
                print(event.type, event.action, event.id)

    errors                 failures
    http                   pooled HTTP/1.1 connections: responses, streams, hijacked connections
    docker, records        the Docker API
    containerd             the API of containerd, over grpc and protobuf
    files, tar_listing     files of containers and volumes
    frames                 demultiplexes stdout and stderr
    references             names of images
    credentials            registry credentials of the user

Responses stay plain dicts of the engine's JSON: the members depend on its version, and
the caller decides what a missing one means. Requests are typed. This package does not
depend on Kubernetes.
"""

from rdd.engine.docker import Docker
from rdd.engine.errors import (
    EngineConflict,
    EngineError,
    EngineFailure,
    EngineNotFound,
    EngineProtocolError,
    EngineUnreachable,
    UnsupportedEngineVersion,
)
from rdd.engine.frames import Chunk
from rdd.engine.http import Hijacked
from rdd.engine.records import ContainerConfig, EngineEvent, ExecConfig, LayerProgress

__all__ = [
    "Chunk",
    "ContainerConfig",
    "Docker",
    "EngineConflict",
    "EngineError",
    "EngineEvent",
    "EngineFailure",
    "EngineNotFound",
    "EngineProtocolError",
    "EngineUnreachable",
    "ExecConfig",
    "Hijacked",
    "LayerProgress",
    "UnsupportedEngineVersion",
]
