# SPDX-License-Identifier: Apache-2.0
"""The HTTPS transport against a real server on a socket."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from rdd.api import errors
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import User
from rdd.apiserver.server import ServerOptions, open_server
from rdd.client import Client, Unreachable, kubeconfig
from rdd.client.https import HttpsTransport
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.builtin.manager import BuiltinControllers
from rdd.store.memory import MemoryStore

ADMIN = User("system-admin", ("system:masters",))


class Daemon:
    """An instance with one store; each start has another token and port."""

    def __init__(self, directory: Path) -> None:
        self.config = directory / "config.yaml"
        self._serving = certificates.ensure_serving(directory)
        self._clients = certificates.create_authority("clients")
        self._store = MemoryStore()
        self._starts = 0

    def certificate(self, user: str, *groups: str) -> certificates.KeyPair:
        """Issue a client certificate that the server accepts."""
        return certificates.issue_client(self._clients, user, groups=groups)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._starts += 1
        token = f"token-{self._starts}"
        server = await open_server(self._store, ServerOptions(tokens={token: ADMIN}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._serving.certificate_path, self._serving.key_path)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self._clients.certificate.decode())
        sock = socket.create_server(("127.0.0.1", 0))
        http = HttpServer(server)
        await http.listen(sock, context)
        url = f"https://127.0.0.1:{sock.getsockname()[1]}"
        authority = self._serving.certificate_path.read_text()
        text = kubeconfig.render(url, authority=authority, admin_token=token)
        kubeconfig.write(self.config, text)
        try:
            yield
        finally:
            await server.close()
            await http.close(timeout_s=0.1)


@pytest.fixture
async def daemon(tmp_path: Path) -> Daemon:
    return Daemon(tmp_path)


def config(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"a": "b" * 1000}}


async def test_verbs_lists_and_errors_over_https(daemon: Daemon) -> None:
    async with daemon.running(), Client(HttpsTransport.from_file(daemon.config)) as client:
        for n in range(5):
            await client.create(CONFIG_MAPS, config(f"a{n}"))
        found = await client.list(CONFIG_MAPS, namespace="default", metadata_only=True)
        assert [o["metadata"]["name"] for o in found.items] == [f"a{n}" for n in range(5)]
        assert found.items[0]["kind"] == "PartialObjectMetadata"
        await client.patch(CONFIG_MAPS, "a0", {"data": {"a": None}}, namespace="default")
        await client.delete(CONFIG_MAPS, "a1", namespace="default")
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAPS, "a1", namespace="default")
        assert (await client.discover()).find("cm") is not None


async def test_watch_over_https_splits_and_filters_lines(daemon: Daemon) -> None:
    async with daemon.running(), Client(HttpsTransport.from_file(daemon.config)) as client:
        changes = client.watch(
            CONFIG_MAPS, namespace="default", keep=lambda _, body: b'"name":"b' not in body
        )
        async with aclosing(changes):
            assert (await anext(changes)).type == "BOOKMARK"  # the end of the initial events
            await client.create(CONFIG_MAPS, config("a"))
            assert (await anext(changes)).object["metadata"]["name"] == "a"
            for name in ("b1", "b2", "c"):
                await client.create(CONFIG_MAPS, config(name))
            assert (await anext(changes)).object["metadata"]["name"] == "c"


async def test_rejected_watch_raises_the_error(daemon: Daemon) -> None:
    async with daemon.running(), Client(HttpsTransport.from_file(daemon.config)) as client:
        with pytest.raises(errors.BadRequest):
            await anext(client.watch(CONFIG_MAPS, label_selector="=="))


async def test_client_reconnects_to_new_port_and_token_after_restart(
    daemon: Daemon,
) -> None:
    async with daemon.running():
        client = Client(HttpsTransport.from_file(daemon.config))
        await client.create(CONFIG_MAPS, config("a"))
    with pytest.raises(Unreachable):
        await client.get(CONFIG_MAPS, "a", namespace="default")
    async with daemon.running():
        found = await asyncio.gather(
            *(client.get(CONFIG_MAPS, "a", namespace="default") for _ in range(5))
        )
        assert len(found) == 5
    await client.close()


async def test_concurrent_requests_reload_a_new_token(daemon: Daemon) -> None:
    async with daemon.running():
        good = daemon.config.read_text()
        kubeconfig.write(daemon.config, good.replace("token-1", "outdated"))
        async with Client(HttpsTransport.from_file(daemon.config)) as client:
            with pytest.raises(errors.Unauthorized):
                await client.list(NAMESPACES)
            kubeconfig.write(daemon.config, good)
            lists = await asyncio.gather(*(client.list(NAMESPACES) for _ in range(5)))
            assert all(found.items for found in lists)


async def test_list_and_watch_resumes_after_restart(daemon: Daemon) -> None:
    async with daemon.running():
        client = Client(HttpsTransport.from_file(daemon.config))
        changes = client.list_and_watch(CONFIG_MAPS, namespace="default")
        await anext(changes)
        assert (await anext(changes)).type == "SYNCED"
        await client.create(CONFIG_MAPS, config("a"))
        assert (await anext(changes)).object["metadata"]["name"] == "a"
    waiting = asyncio.ensure_future(anext(changes))
    async with daemon.running():
        writer = Client(HttpsTransport.from_file(daemon.config))
        await writer.create(CONFIG_MAPS, config("b"))
        event = await waiting
        while event.type in ("RELIST", "SYNCED") or event.object["metadata"]["name"] == "a":
            event = await anext(changes)
        assert event.object["metadata"]["name"] == "b"
        await changes.aclose()
        await writer.close()
        await client.close()


async def test_certificate_of_another_authority_is_rejected(daemon: Daemon, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    foreign = certificates.ensure_serving(other).certificate_path.read_text()
    async with daemon.running():
        known = kubeconfig.load(daemon.config)
        connection = kubeconfig.ConnectionConfig(known.server, authority=foreign, token=known.token)
        async with Client(HttpsTransport(connection)) as client:
            with pytest.raises(Unreachable, match="certificate"):
                await client.list(NAMESPACES)
        insecure = kubeconfig.ConnectionConfig(known.server, token=known.token, is_insecure=True)
        async with Client(HttpsTransport(insecure)) as client:
            assert (await client.list(NAMESPACES)).items


async def test_client_certificate_authenticates(daemon: Daemon) -> None:
    async with daemon.running():
        known = kubeconfig.load(daemon.config)
        pair = daemon.certificate("ann", "devs")
        connection = kubeconfig.ConnectionConfig(
            known.server,
            authority=known.authority,
            client_certificate=pair.certificate.decode(),
            client_key=pair.key.decode(),
        )
        async with Client(HttpsTransport(connection)) as client:
            with pytest.raises(errors.Forbidden, match='User "ann" cannot list'):
                await client.list(CONFIG_MAPS)


async def test_builtin_controllers_work_over_https(daemon: Daemon) -> None:
    async with daemon.running(), Client(HttpsTransport.from_file(daemon.config)) as client:
        controllers = BuiltinControllers(client, root_ca="PEM")
        await controllers.start()
        await client.create(NAMESPACES, {"metadata": {"name": "ns"}})
        owner = await client.create(CONFIG_MAPS, config("owner"))
        metadata = owner["metadata"]
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
        ref |= {"name": metadata["name"], "uid": metadata["uid"]}
        child = config("child")
        child["metadata"]["ownerReferences"] = [ref]  # type: ignore[index]
        await client.create(CONFIG_MAPS, child)
        await client.delete(
            CONFIG_MAPS, "owner", namespace="default", propagation_policy="Foreground"
        )
        await client.delete(NAMESPACES, "ns")
        for resource, name in ((CONFIG_MAPS, "owner"), (NAMESPACES, "ns")):
            changes = client.list_and_watch(resource, field_selector=f"metadata.name={name}")
            present = False
            async with aclosing(changes):
                async for event in changes:
                    present = event.type == "ADDED" or (present and event.type != "DELETED")
                    if not present and event.type in ("SYNCED", "DELETED"):
                        break
        await controllers.stop()
