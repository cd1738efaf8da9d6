# SPDX-License-Identifier: Apache-2.0
"""engine: mirrors the container engine's containers, images and volumes as objects.

reconciler         connects and disconnects; writes the condition of the App
session            one connection: events, resyncs, one item at a time
items, mirrors     the items of the engine, and the objects that mirror them
actions            requests on mirrors: actions, deletion
background_tasks   slow work on items
backend            the interface to an engine
moby, containerd   the two engines; *_objects convert their data
endpoints          shared by streams (logs, stats), execs (exec), files (files, archives) and
                   inspection (inspect, details, top, usage, prune)
docker_context     the Docker context of the instance
"""

from functools import partial
from pathlib import Path

from rdd.api import names
from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.docker_context import DockerContext
from rdd.controllers.containers.engine.endpoints import EngineHandle
from rdd.controllers.containers.engine.execs import ExecEndpoint
from rdd.controllers.containers.engine.files import FileEndpoints
from rdd.controllers.containers.engine.inspection import InspectionEndpoints
from rdd.controllers.containers.engine.items import KINDS, item_keys
from rdd.controllers.containers.engine.moby import MobyBackend
from rdd.controllers.containers.engine.reconciler import (
    EngineReconciler,
    MakeBackend,
    is_request,
)
from rdd.controllers.containers.engine.session import SyncSettings
from rdd.controllers.containers.engine.streams import StreamEndpoints
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.kind import Kind
from rdd.runtime import Context, Controller, maps, watch

CONTAINERD_SOCKET = Path(names.APP_VM_NAME) / "sock" / "containerd.sock"
"""The socket of containerd in the App's machine, relative to LIMA_HOME."""

WORKERS = 32
"""Items reconciled concurrently: enough to keep the engine busy and to share commits."""

__all__ = ["Backend", "SyncSettings", "engine"]


def engine(env: ControllerEnvironment, *, settings: SyncSettings | None = None) -> Controller:
    """Create the controller that mirrors the engine of the App."""
    instance = env.instance
    handle = EngineHandle()
    streams, execs = StreamEndpoints(handle), ExecEndpoint(handle)
    backends: dict[str, MakeBackend] = {
        "moby": lambda: MobyBackend(instance.docker_socket),
        "containerd": lambda: _containerd(instance.lima_home / CONTAINERD_SOCKET),
    }

    def make(context: Context) -> EngineReconciler:
        return EngineReconciler(
            context,
            backends=backends,
            docker_context=DockerContext(env),
            handle=handle,
            settings=settings or SyncSettings(),
        )

    kinds: tuple[type[Kind], ...] = (App, *KINDS.values())
    return Controller(
        "engine",
        make,
        sources=(
            watch(App),
            *(maps(kind, partial(item_keys, kind), is_request) for kind in KINDS.values()),
        ),
        # Watched kinds must be served, even if the controllers that own them do not run.
        definitions=tuple(definition_of(kind) for kind in kinds),
        workers=WORKERS,
        passthroughs={
            "logs": streams.logs,
            "stats": streams.stats,
            "exec": execs.exec,
            **InspectionEndpoints(handle).handlers,
            **FileEndpoints(handle).handlers,
        },
    )


def _containerd(socket: Path) -> Backend:
    # Importing HTTP/2 takes longer than importing the rest of the controller, and is rarely needed.
    from rdd.controllers.containers.engine.containerd import ContainerdBackend

    return ContainerdBackend(socket)
