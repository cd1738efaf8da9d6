# SPDX-License-Identifier: Apache-2.0
"""Real kopf operators against the server: handlers, finalizers, timers, daemons, webhooks.

The operator runs in the test's event loop, the server in its own thread; the
test writes to the server and waits for its state.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest

from rdd.api.types import Object
from rdd.apiserver.auth import certificates
from rdd.testing import LiveServer

pytestmark = pytest.mark.usefixtures("connections_end")

GROUP = ("stable.example.com", "v1", "crontabs")


def crontab(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "1 2 3 4 5", **spec},
    }


class Cluster:
    """Requests of a test to the server while the operator runs."""

    def __init__(self, live: LiveServer, namespace: str) -> None:
        self.live = live
        self.namespace = namespace
        self.crontabs = f"/apis/stable.example.com/v1/namespaces/{namespace}/crontabs"
        self.config_maps = f"/api/v1/namespaces/{namespace}/configmaps"

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Object:
        request = self.live.server.request(method, path, body, **options)
        reply = await asyncio.wrap_future(self.live.submit(request))
        assert reply.status < 300, reply.text
        result: Object = reply.json()
        return result

    async def until(self, path: str, condition: Callable[[Any], Any]) -> Any:
        waiting = self.live.server.until(path, lambda obj: bool(condition(obj)), timeout_s=120)
        return await asyncio.wrap_future(self.live.submit(waiting))

    async def merge(self, path: str, patch: Object) -> Object:
        return await self.call("PATCH", path, patch, content_type="application/merge-patch+json")


@pytest.fixture
def cluster(server: LiveServer, namespace: str) -> Cluster:
    return Cluster(server, namespace)


@pytest.fixture
def registry(server: LiveServer) -> kopf.OperatorRegistry:
    """Return a registry of handlers with the credentials of the server."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            server=server.url, ca_path=str(server.ca_file), token=server.token
        )

    return registry


@asynccontextmanager
async def operator(
    registry: kopf.OperatorRegistry, namespace: str, settings: kopf.OperatorSettings | None = None
) -> AsyncIterator[None]:
    """Run the handlers of a registry; they are ready when the block starts."""
    settings = settings or kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.queueing.idle_timeout = 0.5
    settings.scanning.disabled = True
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=settings,
            namespaces=[namespace],
            standalone=True,
            stop_flag=stop,
            ready_flag=ready,
        )
    )
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait((running, waiting), timeout=120, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        waiting.cancel()
        await running
    assert ready.is_set(), "the operator did not start"
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(running, 120)


async def test_handlers_see_creation_change_and_deletion(
    cluster: Cluster, registry: kopf.OperatorRegistry
) -> None:
    path = f"{cluster.crontabs}/nightly"
    seen: list[tuple[str, Any]] = []

    @kopf.on.create(*GROUP, registry=registry)
    def created(spec: Any, **_: Any) -> dict[str, Any]:
        seen.append(("created", spec["replicas"]))
        return {"replicas": spec["replicas"]}

    @kopf.on.update(*GROUP, registry=registry, field="spec.replicas")
    def scaled(old: Any, new: Any, patch: Any, **_: Any) -> None:
        seen.append(("scaled", (old, new)))
        patch.status["replicas"] = new

    @kopf.on.delete(*GROUP, registry=registry)
    def deleted(name: str, **_: Any) -> None:
        seen.append(("deleted", name))

    async with operator(registry, cluster.namespace):
        await cluster.call("POST", cluster.crontabs, crontab("nightly", replicas=2))
        made = await cluster.until(
            path, lambda o: o and "last-handled-configuration" in str(o["metadata"])
        )
        assert made["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        await cluster.merge(path, {"spec": {"replicas": 5}})
        await cluster.until(path, lambda o: o and o.get("status", {}).get("replicas") == 5)
        await cluster.call("DELETE", path)
        await cluster.until(path, lambda o: o is None)
    assert seen == [("created", 2), ("scaled", (2, 5)), ("deleted", "nightly")]


async def test_children_are_adopted_and_collected(
    cluster: Cluster, registry: kopf.OperatorRegistry, server: LiveServer
) -> None:
    @kopf.on.create(*GROUP, registry=registry)
    async def created(name: str, namespace: Any, **_: Any) -> None:
        child: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        kopf.adopt(child)
        kopf.label(child, {"made-by": "operator"})
        child["metadata"]["namespace"] = namespace
        await cluster.call("POST", cluster.config_maps, child)

    async with operator(registry, cluster.namespace):
        await cluster.call("POST", cluster.crontabs, crontab("parent"))
        child = await cluster.until(f"{cluster.config_maps}/parent", lambda o: o)
        assert child["metadata"]["ownerReferences"][0]["kind"] == "CronTab"
        assert child["metadata"]["labels"] == {"made-by": "operator"}
        await cluster.call("DELETE", f"{cluster.crontabs}/parent")
        await cluster.until(f"{cluster.config_maps}/parent", lambda o: o is None)


async def test_failing_handler_is_retried(
    cluster: Cluster, registry: kopf.OperatorRegistry
) -> None:
    attempts: list[int] = []

    @kopf.on.create(*GROUP, registry=registry, retries=5, backoff=0.05)
    def created(retry: int, patch: Any, **_: Any) -> None:
        attempts.append(retry)
        if retry < 2:
            raise kopf.TemporaryError("not yet", delay=0.05)
        patch.status["selector"] = "done"

    async with operator(registry, cluster.namespace):
        await cluster.call("POST", cluster.crontabs, crontab("stubborn"))
        path = f"{cluster.crontabs}/stubborn"
        await cluster.until(path, lambda o: o and o.get("status", {}).get("selector") == "done")
    assert attempts == [0, 1, 2]


async def test_timers_run_repeatedly(cluster: Cluster, registry: kopf.OperatorRegistry) -> None:
    @kopf.timer(*GROUP, registry=registry, interval=0.05)
    def tick(status: Any, patch: Any, **_: Any) -> None:
        patch.status["replicas"] = status.get("replicas", 0) + 1

    async with operator(registry, cluster.namespace):
        await cluster.call("POST", cluster.crontabs, crontab("ticking"))
        path = f"{cluster.crontabs}/ticking"
        await cluster.until(path, lambda o: o and o.get("status", {}).get("replicas", 0) >= 3)


async def test_daemons_stop_with_their_object(
    cluster: Cluster, registry: kopf.OperatorRegistry
) -> None:
    life: list[str] = []

    @kopf.daemon(*GROUP, registry=registry, cancellation_timeout=1.0)
    async def watch_over(name: str, stopped: Any, **_: Any) -> None:
        life.append(f"{name} begins")
        await stopped.wait(30)
        life.append(f"{name} ends")

    async with operator(registry, cluster.namespace):
        path = f"{cluster.crontabs}/guarded"
        await cluster.call("POST", cluster.crontabs, crontab("guarded"))
        await cluster.until(path, lambda o: o and o["metadata"].get("finalizers"))
        await cluster.call("DELETE", path)
        await cluster.until(path, lambda o: o is None)
    assert life == ["guarded begins", "guarded ends"]


async def test_existing_objects_are_resumed_and_indexed(
    cluster: Cluster, registry: kopf.OperatorRegistry
) -> None:
    await cluster.call("POST", cluster.crontabs, crontab("old", image="x"))

    @kopf.index(*GROUP, registry=registry, id="by_image")
    def by_image(spec: Any, name: str, **_: Any) -> dict[str, str]:
        return {spec.get("image", ""): name}

    @kopf.on.resume(*GROUP, registry=registry)
    @kopf.on.create(*GROUP, registry=registry)
    def known(patch: Any, by_image: Any = None, **_: Any) -> None:
        patch.status["selector"] = ",".join(by_image.get("x", []))

    async with operator(registry, cluster.namespace):
        path = f"{cluster.crontabs}/old"
        await cluster.until(path, lambda o: o and o.get("status", {}).get("selector") == "old")


async def test_events_of_built_in_kinds_reach_handlers(
    cluster: Cluster, registry: kopf.OperatorRegistry
) -> None:
    seen: asyncio.Queue[tuple[str | None, str]] = asyncio.Queue()

    @kopf.on.event("configmaps", registry=registry, labels={"watched": "yes"})
    def changed(type: str | None, name: str, **_: Any) -> None:
        seen.put_nowait((type, name))

    async with operator(registry, cluster.namespace):
        body = {"metadata": {"name": "a", "labels": {"watched": "yes"}}}
        await cluster.call("POST", cluster.config_maps, body)
        # None: the object existed before the operator listed.
        assert await asyncio.wait_for(seen.get(), 120) in (("ADDED", "a"), (None, "a"))
        await cluster.call("DELETE", f"{cluster.config_maps}/a")
        assert await asyncio.wait_for(seen.get(), 120) == ("DELETED", "a")


async def test_operator_survives_broken_watches_and_conflicts(
    cluster: Cluster, registry: kopf.OperatorRegistry, server: LiveServer
) -> None:
    @kopf.on.create(*GROUP, registry=registry, backoff=0.05)
    def created(patch: Any, **_: Any) -> None:
        patch.status["selector"] = "handled"

    settings = kopf.OperatorSettings()
    settings.networking.error_backoffs = [0.05]
    settings.watching.reconnect_backoff = 0.05
    where = {"resource": "crontabs", "namespace": cluster.namespace}
    cut = server.faults.drop_watch(2, after=0, **where)
    gone = server.faults.gone(1, verb="watch", **where)
    busy = server.faults.error(503, 1, verb="patch", **where)
    async with operator(registry, cluster.namespace, settings):
        await cluster.call("POST", cluster.crontabs, crontab("tough"))
        path = f"{cluster.crontabs}/tough"
        await cluster.until(path, lambda o: o and o.get("status", {}).get("selector") == "handled")
    assert (cut.hits, gone.hits, busy.hits) == (2, 1, 1)


async def test_admission_handlers_mutate_and_reject(
    cluster: Cluster, registry: kopf.OperatorRegistry, tmp_path: Path
) -> None:
    @kopf.on.mutate(*GROUP, registry=registry)
    def fill_in(spec: Any, patch: kopf.Patch, **_: Any) -> None:
        if "image" not in spec:
            patch.spec["image"] = "filled-in"

    @kopf.on.validate(*GROUP, registry=registry)
    def check(spec: Any, warnings: list[str], **_: Any) -> None:
        warnings.append("looked at it")
        if spec.get("replicas") == 7:
            raise kopf.AdmissionError("seven is not allowed", code=451)

    pair = certificates.ensure_serving(tmp_path, names=("localhost", "127.0.0.1"))
    settings = kopf.OperatorSettings()
    settings.admission.managed = f"{cluster.namespace}.example.com"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="127.0.0.1",
        certfile=str(pair.certificate_path),
        pkeyfile=str(pair.key_path),
        cafile=str(pair.certificate_path),
    )
    hooks = "/apis/admissionregistration.k8s.io/v1"
    name = settings.admission.managed
    async with operator(registry, cluster.namespace, settings):
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await cluster.until(f"{hooks}/{kind}/{name}", lambda o: o and o.get("webhooks"))
        made = await cluster.call("POST", cluster.crontabs, crontab("a"))
        assert made["spec"]["image"] == "filled-in"
        refused = cluster.live.server.request("POST", cluster.crontabs, crontab("b", replicas=7))
        reply = await asyncio.wrap_future(cluster.live.submit(refused))
        assert reply.status == 451
        assert "seven is not allowed" in reply.json()["message"]
        assert reply.warnings == ["looked at it"]
    await cluster.until(
        f"{hooks}/validatingwebhookconfigurations/{name}", lambda o: o and not o.get("webhooks")
    )
