# SPDX-License-Identifier: Apache-2.0
"""engine: the container engine's containers, images and volumes as objects.

reconciler       when to be connected, and what the App says about it
session          one connection: events, complete looks, one item at a time
items, mirrors   what is mirrored, and the objects
actions          what users ask for on mirrors: actions, deletion
errands          what takes long
backend          what the mirror needs of an engine
moby, moby_objects    the Docker engine
docker_context   our Docker context
"""

from functools import partial
from pathlib import Path

from rdd.controllers.containers.engine.backend import Backend
from rdd.controllers.containers.engine.docker_context import DockerContext
from rdd.controllers.containers.engine.endpoints import Link
from rdd.controllers.containers.engine.execs import Execs
from rdd.controllers.containers.engine.items import KINDS, item_key
from rdd.controllers.containers.engine.moby import Moby
from rdd.controllers.containers.engine.reconciler import (
    EngineReconciler,
    MakeBackend,
    concerns_the_engine,
)
from rdd.controllers.containers.engine.session import Pace
from rdd.controllers.containers.engine.streams import Streams
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.kind import Kind
from rdd.runtime import Context, Controller, maps, watch

CONTAINERD_SOCKET = Path("rd") / "sock" / "containerd.sock"
"""Where the App's machine has containerd's socket, below LIMA_HOME."""

WORKERS = 32
"""Items looked at at the same time: enough to keep the engine busy and to share commits."""

__all__ = ["Backend", "Pace", "engine"]


def engine(env: ControllerEnvironment, *, pace: Pace | None = None) -> Controller:
    """The controller that mirrors the engine of the App."""
    instance = env.instance
    link = Link()
    streams, execs = Streams(link), Execs(link)
    backends: dict[str, MakeBackend] = {
        "moby": lambda: Moby(instance.docker_socket),
        "containerd": lambda: _containerd(instance.lima_home / CONTAINERD_SOCKET),
    }

    def make(context: Context) -> EngineReconciler:
        return EngineReconciler(
            context,
            backends=backends,
            docker_context=DockerContext(env),
            link=link,
            pace=pace or Pace(),
        )

    kinds: tuple[type[Kind], ...] = (App, *KINDS.values())
    return Controller(
        "engine",
        make,
        sources=(
            watch(App),
            *(maps(kind, partial(item_key, kind), concerns_the_engine) for kind in KINDS.values()),
        ),
        # What it watches must be served for it to start, whichever controllers run beside it.
        definitions=tuple(definition_of(kind) for kind in kinds),
        workers=WORKERS,
        passthroughs={"logs": streams.logs, "stats": streams.stats, "exec": execs.exec},
    )


def _containerd(socket: Path) -> Backend:
    # HTTP/2 takes longer to load than the rest of the controller; few need it.
    from rdd.controllers.containers.engine.containerd import Containerd

    return Containerd(socket)
