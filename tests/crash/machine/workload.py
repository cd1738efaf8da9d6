# SPDX-License-Identifier: Apache-2.0
"""Clients that write at random, each on a connection of its own, and record every outcome.

Few names, so that clients meet: creates collide, updates conflict, deletes and creates of one
name alternate. Objects may have finalizers, which a janitor removes, and owners, whose end the
garbage collector follows. ConfigMapReplicaSets are reconciled by their controller.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.crash.machine.recorder import MARK, History, Outcome, Write, state_of
from tests.crash.machine.wire import Connection, Cut

NAMESPACE = "crash"
FINALIZER = "crash.example.com/hold"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
RDD = f"/apis/rdd.rancherdesktop.io/v1alpha1/namespaces/{NAMESPACE}"
PATHS = {
    "configmaps": f"{CORE}/configmaps",
    "secrets": f"{CORE}/secrets",
    "configmapreplicasets": f"{RDD}/configmapreplicasets",
}
KINDS = {
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "configmapreplicasets": ("rdd.rancherdesktop.io/v1alpha1", "ConfigMapReplicaSet"),
}
NAMES = {"configmaps": 10, "secrets": 6, "configmapreplicasets": 3}
PAUSE_S = 0.02
"""Between the writes of a client: the load is mixed, not maximal (that is tests/load)."""


class Client:
    """One writer."""

    def __init__(self, number: int, seed: int, kubeconfig: Path, history: History) -> None:
        self.choose = random.Random(f"{seed}/client/{number}")
        self.number = number
        self.history = history
        self.connection = Connection(kubeconfig)

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            while True:
                kind = self.choose.choices(list(NAMES), weights=(6, 3, 1))[0]
                name = f"{kind[0]}{self.choose.randrange(NAMES[kind])}"
                verb = self.choose.choices(
                    ("create", "update", "patch", "apply", "delete", "own"), (5, 5, 3, 3, 2, 1)
                )[0]
                try:
                    await getattr(self, verb)(kind, name)
                except Cut:
                    await asyncio.sleep(0.05)  # the server is away
                await asyncio.sleep(self.choose.random() * PAUSE_S)
        finally:
            self.connection.close()

    # -- writes

    async def create(self, kind: str, name: str, owner: Any = None) -> Any:
        """Create an object, sometimes with a finalizer or an owner."""
        write = self.history.begin(
            "create", f"{kind}/{name}", owner=owner["metadata"]["uid"] if owner else ""
        )
        body = self._body(kind, name, write.mark)
        if self.choose.random() < 0.3:
            body["metadata"]["finalizers"] = [FINALIZER]
        if owner is not None:
            body["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                }
            ]
        return await self._write(write, "POST", PATHS[kind], body)

    async def update(self, kind: str, name: str) -> None:
        """Read an object and replace it, if it has not changed since."""
        found = await self._read(kind, name)
        if found is None:
            return
        based_on = int(found["metadata"]["resourceVersion"])
        write = self.history.begin("update", f"{kind}/{name}", based_on=based_on)
        found["metadata"].setdefault("annotations", {})[MARK] = write.mark
        found.update(self._content(kind))
        await self._write(write, "PUT", f"{PATHS[kind]}/{name}", found)

    async def patch(self, kind: str, name: str) -> None:
        """Patch an object in one of the formats."""
        write = self.history.begin("patch", f"{kind}/{name}")
        media = self.choose.choice((MERGE, STRATEGIC, JSON_PATCH))
        if kind == "configmapreplicasets" and media == STRATEGIC:
            media = MERGE  # not for custom resources
        body: Any = {"metadata": {"annotations": {MARK: write.mark}}, **self._content(kind)}
        if media == JSON_PATCH:
            pointer = MARK.replace("/", "~1")
            body = [
                {"op": "add", "path": f"/metadata/annotations/{pointer}", "value": write.mark},
            ]
        await self._write(write, "PATCH", f"{PATHS[kind]}/{name}", body, media)

    async def apply(self, kind: str, name: str) -> None:
        """Apply an object, which may create it."""
        write = self.history.begin("apply", f"{kind}/{name}")
        path = f"{PATHS[kind]}/{name}?fieldManager=client-{self.number}&force=true"
        await self._write(write, "PATCH", path, self._body(kind, name, write.mark), APPLY)

    async def delete(self, kind: str, name: str) -> None:
        """Delete the present object of a name."""
        found = await self._read(kind, name)
        if found is None:
            return
        write = self.history.begin("delete", f"{kind}/{name}")
        write.uid = found["metadata"]["uid"]
        body = {"preconditions": {"uid": write.uid}, "propagationPolicy": "Background"}
        await self._write(write, "DELETE", f"{PATHS[kind]}/{name}", body)

    async def own(self, kind: str, name: str) -> None:
        """Create dependents of a ConfigMap; the garbage collector deletes them after it."""
        owner = await self._read("configmaps", name) if kind == "configmaps" else None
        if owner is not None:
            for number in range(2):
                await self.create("secrets", f"of-{name}-{number}", owner)

    # -- parts

    def _content(self, kind: str) -> dict[str, Any]:
        if kind == "configmapreplicasets":
            return {"spec": {"replicas": self.choose.randrange(5), "data": {"a": "b"}}}
        text = "x" * self.choose.choice((1, 10, 100, 5_000))
        return {"data": {"text": text}} if kind == "configmaps" else {"stringData": {"text": text}}

    def _body(self, kind: str, name: str, mark: str) -> dict[str, Any]:
        version, title = KINDS[kind]
        metadata = {"name": name, "namespace": NAMESPACE, "annotations": {MARK: mark}}
        return {
            "apiVersion": version,
            "kind": title,
            "metadata": metadata,
            **self._content(kind),
        }

    async def _read(self, kind: str, name: str) -> Any:
        status, found = await self.connection.request("GET", f"{PATHS[kind]}/{name}")
        return found if status == 200 else None

    async def _write(
        self, write: Write, method: str, path: str, body: Any, media: str = "application/json"
    ) -> Any:
        status, answer = await self.connection.request(method, path, body, media)
        if status < 300:
            is_end = write.verb in ("delete", "release")
            self.history.finish(write, Outcome.ACKNOWLEDGED, None if is_end else answer)
        elif status < 500:
            self.history.finish(write, Outcome.REFUSED)
        return answer


class Janitor(Client):
    """Removes the finalizer of objects that are being deleted."""

    async def run(self) -> None:
        """Release until cancelled."""
        try:
            while True:
                try:
                    await self.sweep()
                except Cut:
                    pass
                await asyncio.sleep(0.2)
        finally:
            self.connection.close()

    async def sweep(self) -> int:
        """Release everything that waits for its finalizer; return how many objects that are."""
        count = 0
        for kind, path in PATHS.items():
            status, found = await self.connection.request("GET", path)
            for obj in found["items"] if status == 200 else ():
                if FINALIZER not in (obj["metadata"].get("finalizers") or ()):
                    continue
                state = state_of(kind, obj)
                if state.is_deleting:
                    count += 1
                    write = self.history.begin("release", state.key)
                    body = [
                        {"op": "test", "path": "/metadata/uid", "value": state.uid},
                        {"op": "remove", "path": "/metadata/finalizers"},
                    ]
                    name = obj["metadata"]["name"]
                    await self._write(write, "PATCH", f"{path}/{name}", body, JSON_PATCH)
        return count
