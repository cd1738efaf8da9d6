# SPDX-License-Identifier: Apache-2.0
"""The store on a real etcd: several servers, lost connections, leases, compaction by others."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
from tests.etcd import EtcdServer, leader_of, start_cluster
from tests.unit.store.harness import Recorder, brief

from rdd.api import errors
from rdd.apiserver.http.request import SYSTEM, Request
from rdd.apiserver.server import open_server
from rdd.client import Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS
from rdd.grpc import calls
from rdd.store.contract import (
    ABSENT,
    Compacted,
    CompareFailed,
    Delete,
    Op,
    OutcomeUnknown,
    Put,
    StoreError,
    StoreInUse,
    StoreUnreachable,
    Unavailable,
)
from rdd.store.etcd import export
from rdd.store.etcd.address import EtcdAddress, InvalidAddress, parse_address
from rdd.store.etcd.client import EtcdClient
from rdd.store.etcd.copying import copy_to_etcd, copy_to_sqlite
from rdd.store.etcd.store import EtcdStore
from rdd.store.sqlite import schema
from rdd.store.sqlite.store import SqliteStore


def address_of(server: EtcdServer, prefix: str) -> EtcdAddress:
    return EtcdAddress((("127.0.0.1", server.port),), prefix)


@pytest.fixture
async def opened() -> AsyncIterator[list[EtcdStore]]:
    """Stores to close at the end."""
    stores: list[EtcdStore] = []
    yield stores
    for store in stores:
        await store.close()


async def open_store(
    opened: list[EtcdStore], address: EtcdAddress, owner: str = "tests"
) -> EtcdStore:
    store = await EtcdStore.open(address, owner=owner)
    opened.append(store)
    return store


@pytest.fixture
def own_server(real_part: Callable[[str], Path], tmp_path: Path) -> Iterator[EtcdServer]:
    """An etcd that a test may stop."""
    server = EtcdServer(real_part("etcd"), tmp_path)
    server.start()
    yield server
    server.stop()


async def test_two_servers_see_each_others_commits(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    address = address_of(etcd_server, f"/rdd/{tmp_path.name}")
    one, two = await open_store(opened, address), await open_store(opened, address)
    seen = Recorder(two)
    revision = await one.commit([Put("/a", b"1", expect=ABSENT)])
    await two.refresh()
    assert two.revision >= revision
    assert brief(seen.events) == [("put", "/a", b"1", revision)]
    with pytest.raises(CompareFailed) as failure:
        await two.commit([Put("/a", b"2", expect=ABSENT)])
    assert failure.value.current == revision
    deleted = await two.commit([Delete("/a", expect=revision)])
    await one.refresh()
    assert one.revision >= deleted
    assert await one.get("/a") is None


async def test_one_of_concurrent_updates_by_two_servers_wins(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    address = address_of(etcd_server, f"/rdd/{tmp_path.name}")
    servers = [await open_store(opened, address) for _ in range(2)]
    revision = await servers[0].commit([Put("/counter", b"0")])
    for round_ in range(20):
        results = await asyncio.gather(
            *(server.commit([Put("/counter", b"%d" % round_, revision)]) for server in servers),
            return_exceptions=True,
        )
        won = [result for result in results if isinstance(result, int)]
        lost = [result for result in results if isinstance(result, CompareFailed)]
        assert (len(won), len(lost)) == (1, 1)
        assert lost[0].current == won[0]
        revision = won[0]


async def test_refresh_is_shared_by_those_who_wait(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    store = await open_store(opened, address_of(etcd_server, f"/rdd/{tmp_path.name}"))
    await store.commit([Put("/a", b"1")])
    reads = 0
    read_head = store._read_head

    async def counted() -> int:
        nonlocal reads
        reads += 1
        return await read_head()

    store._read_head = counted  # type: ignore[method-assign]
    await asyncio.gather(*(store.refresh() for _ in range(50)))
    assert reads <= 2


async def test_refresh_reaches_a_revision_of_other_keys(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    """Servers start at revisions of the whole cluster and hand them out."""
    address = address_of(etcd_server, f"/rdd/{tmp_path.name}")
    one = await open_store(opened, address)
    etcd_server.etcdctl("put", "/other", "1")
    two = await open_store(opened, address)
    assert two.revision > one.revision
    await one.refresh(two.revision)
    assert one.revision >= two.revision
    newest = one.revision
    await one.refresh(newest + 1000)  # nothing has that revision
    assert newest <= one.revision < newest + 1000


async def test_store_survives_a_restart_of_etcd(
    own_server: EtcdServer, opened: list[EtcdStore]
) -> None:
    store = await open_store(opened, address_of(own_server, "/rdd/2"))
    first = await store.commit([Put("/a", b"1")])
    own_server.stop()
    with pytest.raises(Unavailable):
        await store.commit([Put("/a", b"2")])
    own_server.start()
    while True:
        try:
            second = await store.commit([Put("/a", b"3", expect=first)])
            break
        except Unavailable:
            await asyncio.sleep(0.05)
    assert second > first
    record = await store.get("/a")
    assert record is not None and record.value == b"3"


async def test_endpoint_that_does_not_answer_is_passed_over(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    endpoints = (("127.0.0.1", 9), ("127.0.0.1", etcd_server.port))
    store = await open_store(opened, EtcdAddress(endpoints, f"/rdd/{tmp_path.name}"))
    assert await store.commit([Put("/a", b"1")])


async def test_write_whose_connection_is_lost_has_an_unknown_outcome(
    own_server: EtcdServer, opened: list[EtcdStore]
) -> None:
    store = await open_store(opened, address_of(own_server, "/rdd/2"))
    assert own_server.program is not None
    os.kill(own_server.program.pid, signal.SIGSTOP)
    commit = asyncio.ensure_future(store.commit([Put("/a", b"1")]))
    for _ in range(10):  # the request is in the socket of the stopped server
        await asyncio.sleep(0)
    own_server.stop()
    with pytest.raises(OutcomeUnknown):
        await commit


async def test_history_compacted_while_disconnected_is_reloaded(
    own_server: EtcdServer, opened: list[EtcdStore]
) -> None:
    address = address_of(own_server, "/rdd/2")
    store = await open_store(opened, address)
    other = await open_store(opened, address)
    await store.commit([Put("/kept", b"1"), Put("/changed", b"1"), Put("/gone", b"1")])
    await other.refresh()
    assert store._follower is not None
    store._follower._task.cancel()
    await asyncio.gather(store._follower._task, return_exceptions=True)
    await other.commit([Put("/changed", b"2"), Delete("/gone"), Put("/new", b"1")])
    last = await other.commit([Put("/new", b"2")])
    await other.compact(last)
    seen = Recorder(store)
    store._follower._task = asyncio.ensure_future(store._follower._run())
    await store.refresh()
    changes = sorted((event.type.value, event.key, event.value) for event in seen.events)
    assert changes == [("delete", "/gone", b""), ("put", "/changed", b"2"), ("put", "/new", b"2")]
    with pytest.raises(Compacted):
        await store.history("/", 1)


@contextlib.asynccontextmanager
async def not_following(store: EtcdStore) -> AsyncIterator[None]:
    """Let a store miss what happens during the block, and follow it then."""
    assert store._follower is not None
    store._follower._task.cancel()
    await asyncio.gather(store._follower._task, return_exceptions=True)
    yield
    store._follower._task = asyncio.ensure_future(store._follower._run())


async def test_backlog_larger_than_a_message_arrives_in_whole_revisions(
    etcd_server: EtcdServer,
    opened: list[EtcdStore],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = address_of(etcd_server, f"/rdd/{tmp_path.name}")
    store, other = await open_store(opened, address), await open_store(opened, address)
    before = store.revision
    batches: list[list[int]] = []
    store.observe(lambda events: batches.append([event.revision for event in events]))
    async with not_following(store):
        for number in range(10):
            await other.commit([Put(f"/{number}/{n}", b"v" * 350_000) for n in range(4)])
        monkeypatch.setattr(calls, "MAX_MESSAGE", 6_000_000)  # everything together is 14 MB
    await store.refresh()
    revisions = [set(batch) for batch in batches]
    assert sum(map(len, batches)) == 40 and len(set.union(*revisions)) == 10
    assert sum(map(len, revisions)) == 10  # none is in two batches
    chunk = await store.history("/", before)
    assert [event.key for event in chunk.events] == [
        f"/{i}/{n}" for i in range(10) for n in range(4)
    ]


@pytest.mark.parametrize("change", [Put("/a", b"2"), Delete("/a")], ids=["update", "deletion"])
async def test_history_without_previous_values_is_compacted(
    own_server: EtcdServer, opened: list[EtcdStore], change: Op
) -> None:
    """Another server has compacted up to a change: etcd has the change, not what it replaced."""
    address = address_of(own_server, "/rdd/2")
    store, other = await open_store(opened, address), await open_store(opened, address)
    first = await store.commit([Put("/a", b"1")])
    last = await store.commit([change])
    await other.refresh()
    await other.compact(last)
    with pytest.raises(Compacted):
        await store.history("/", first)
    assert store.compacted >= last


async def test_watches_end_and_cannot_resume_before_lost_history(
    own_server: EtcdServer, opened: list[EtcdStore]
) -> None:
    address = address_of(own_server, "/rdd/2")
    store, other = await open_store(opened, address), await open_store(opened, address)
    server = await open_server(store)
    try:
        client = Client(LocalTransport(server.handle, partial(Request, user=SYSTEM)))
        made = await client.create(CONFIG_MAPS, config_map("a"))
        version = made["metadata"]["resourceVersion"]

        async def watch() -> list[str]:
            events = client.watch(CONFIG_MAPS, namespace="default", resource_version=version)
            return [event.type async for event in events]

        watching = asyncio.ensure_future(watch())
        while not server.core.watch_count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert store._follower is not None
        store._follower._task.cancel()
        await asyncio.gather(store._follower._task, return_exceptions=True)
        copied = await other.get("/registry/configmaps/default/a")
        assert copied is not None
        value = copied.value.replace(b'"name":"a"', b'"name":"b"')
        await other.commit([Put("/registry/configmaps/default/b", value)])
        # What is not an object of the API is ignored.
        last = await other.commit([Put("/registry/x", b"1"), Put("/registry/configmaps/d/c", b"")])
        await other.compact(last)
        store._follower._task = asyncio.ensure_future(store._follower._run())
        await store.refresh()
        async with asyncio.timeout(60):
            assert await watching == []
        with pytest.raises(errors.Expired):
            await watch()
        listed = await client.list(CONFIG_MAPS, namespace="default")
        assert [item["metadata"]["name"] for item in listed.items] == ["a", "b"]
    finally:
        await server.close()


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}}


FOREIGN = {
    "text": b"hello",
    "empty": b"",
    "array": b"[1]",
    "indented": b'{\n "kind": "ConfigMap"\n}',
    "whole": b'{"kind":"ConfigMap","metadata":{"name":"whole","uid":"%036d"}}' % 1,
    "renamed": b'"metadata":{"name":"other","namespace":"default","uid":"%036d"}}' % 1,
    "cut": b'"metadata":{"name":"cut","namespace":"default","uid":"%036d"' % 1,
}
"""Values that a user may write with etcdctl."""


async def test_values_of_other_programs_are_ignored(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    address = address_of(etcd_server, f"/rdd/{tmp_path.name}")
    prefix = "/registry/configmaps/default/"
    writer = await open_store(opened, address)
    server = await open_server(writer)
    try:
        client = Client(LocalTransport(server.handle, partial(Request, user=SYSTEM)))
        version = (await client.create(CONFIG_MAPS, config_map("kept")))["metadata"][
            "resourceVersion"
        ]
        await client.create(CONFIG_MAPS, config_map("overwritten"))
        await writer.commit([Put(prefix + name, value) for name, value in FOREIGN.items()])
        await writer.commit([Put(f"{prefix}overwritten", b"[]")])
        await check_names(client, ["kept"])
    finally:
        await server.close()
    server = await open_server(await open_store(opened, address))
    try:
        client = Client(LocalTransport(server.handle, partial(Request, user=SYSTEM)))
        await check_names(client, ["kept"])
        last = (await client.create(CONFIG_MAPS, config_map("last")))["metadata"]["resourceVersion"]
        events = client.watch(CONFIG_MAPS, namespace="default", resource_version=version)
        seen = []
        async for event in events:
            seen.append((event.type, event.object["metadata"]["name"]))
            if event.object["metadata"]["resourceVersion"] == last:
                break
        assert seen == [("ADDED", "overwritten"), ("DELETED", "overwritten"), ("ADDED", "last")]
        found = await client.request(
            "GET",
            "/api/v1/namespaces/default/configmaps",
            query={"resourceVersionMatch": ["Exact"], "resourceVersion": [last]},
        )
        names = [item["metadata"]["name"] for item in orjson.loads(found.body)["items"]]
        assert names == ["kept", "last"]
        with pytest.raises(errors.AlreadyExists):
            await client.create(CONFIG_MAPS, config_map("text"))
    finally:
        await server.close()


async def check_names(client: Client, expected: list[str]) -> None:
    listed = await client.list(CONFIG_MAPS, namespace="default")
    assert [item["metadata"]["name"] for item in listed.items] == expected


async def test_key_with_a_time_to_live_is_deleted_by_etcd(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    store = await open_store(opened, address_of(etcd_server, f"/rdd/{tmp_path.name}"))
    seen = Recorder(store)
    await store.commit([Put("/event", b"1", ttl_s=1), Put("/stays", b"1")])
    async with asyncio.timeout(60):
        events = await seen.wait_for(3)
    assert (events[2].type.value, events[2].key) == ("delete", "/event")
    assert events[2].previous_revision == events[2].created == events[0].revision


async def test_value_larger_than_a_window_is_stored(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    store = await open_store(opened, address_of(etcd_server, f"/rdd/{tmp_path.name}"))
    value = b"v" * 1_400_000
    await store.commit([Put("/large", value)])
    record = await store.get("/large")
    assert record is not None and record.value == value


async def test_value_that_etcd_rejects_is_reported(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    store = await open_store(opened, address_of(etcd_server, f"/rdd/{tmp_path.name}"))
    with pytest.raises(Unavailable, match=r"larger than max|too large"):
        await store.commit([Put("/large", b"v" * 3_000_000)])
    assert await store.commit([Put("/small", b"v")])


async def test_prefix_of_another_owner_is_refused(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    address = address_of(etcd_server, f"/rdd/{tmp_path.name}")
    await open_store(opened, address, owner="one")
    with pytest.raises(StoreInUse, match='belongs to "one", not to "two"'):
        await EtcdStore.open(address, owner="two")


async def test_unreachable_cluster_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"etcd at 127\.0\.0\.1:9: .*Connect"):
        await EtcdStore.open(EtcdAddress((("127.0.0.1", 9),), "/rdd/2"), owner="tests")


async def test_pages_shrink_with_the_size_of_values(
    etcd_server: EtcdServer,
    opened: list[EtcdStore],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = await open_store(opened, address_of(etcd_server, f"/rdd/{tmp_path.name}"))
    for number in range(30):
        await store.commit([Put(f"/{number:02}", bytes([number]) * 100_000)])
    monkeypatch.setattr(calls, "MAX_MESSAGE", 1_000_000)  # a page of 30 values is too large
    page = await store.scan("")
    assert [record.value[:1] for record in page.records] == [bytes([n]) for n in range(30)]
    assert not page.more


@pytest.mark.parametrize("version", ["etcd", "etcd-3.5"])
async def test_cluster_goes_on_without_its_leader(
    real_part: Callable[[str], Path], tmp_path: Path, opened: list[EtcdStore], version: str
) -> None:
    members = start_cluster(real_part(version), tmp_path)
    try:
        endpoints = tuple(("127.0.0.1", member.port) for member in members)
        store = await until_available(lambda: open_store(opened, EtcdAddress(endpoints, "/rdd/2")))
        seen = Recorder(store)
        first = await store.commit([Put("/a", b"1")])
        leader_of(members).stop()
        second = await until_available(lambda: store.commit([Put("/a", b"2", expect=first)]))
        await until_available(store.refresh)
        events = await seen.wait_for(2)
        assert [event.revision for event in events] == [first, second]
        record = await store.get("/a")
        assert record is not None and record.value == b"2"
    finally:
        for member in members:
            member.stop()


async def test_cluster_without_a_quorum_is_refused_and_recovers(
    real_part: Callable[[str], Path], tmp_path: Path, opened: list[EtcdStore]
) -> None:
    members = start_cluster(real_part("etcd"), tmp_path)
    try:
        address = EtcdAddress(tuple(("127.0.0.1", member.port) for member in members), "/rdd/2")
        await until_available(lambda: open_store(opened, address))
        for member in members[1:]:
            member.stop()
        for _ in range(3):
            with pytest.raises(StoreUnreachable, match=f"127.0.0.1:{members[0].port}: "):
                await EtcdStore.open(address, owner="tests")
            with pytest.raises(StoreUnreachable):
                await opened[0].commit([Put("/a", b"1")])
        for member in members[1:]:
            member.start(wait=False)
        await until_available(lambda: opened[0].commit([Put("/b", b"1")]))
        await until_available(lambda: open_store(opened, address))
    finally:
        for member in members:
            member.stop()


async def until_available(act: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a call until the cluster answers; a write that was executed fails to compare."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await act()
            except Unavailable:
                await asyncio.sleep(0.05)
            except CompareFailed as failure:
                return failure.current


async def test_restored_cluster_is_reported(own_server: EtcdServer, tmp_path: Path) -> None:
    address = address_of(own_server, "/rdd/2")
    store = await EtcdStore.open(address, owner="tests")
    try:
        for number in range(5):
            await store.commit([Put("/a", b"%d" % number)])
        own_server.stop()
        shutil.rmtree(own_server.directory / "data")
        own_server.start()
        with pytest.raises(Unavailable, match="restored from a backup; restart"):
            while True:
                try:
                    await store.refresh()
                except StoreUnreachable:
                    await asyncio.sleep(0.05)
    finally:
        await store.close()


async def test_endpoint_of_another_service_is_reported(tmp_path: Path) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        with pytest.raises(StoreUnreachable, match=f"127.0.0.1:{port}: .*not HTTP/2"):
            await EtcdStore.open(EtcdAddress((("127.0.0.1", port),), "/rdd/2"), owner="tests")
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("version", ["3.3.27", "2.3.8", ""])
async def test_etcd_that_is_too_old_is_refused(
    etcd_server: EtcdServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    # Debian has no etcd before 3.4; the answer of the member is replaced, the rest is real.
    async def old(self: EtcdClient) -> str:
        return version

    monkeypatch.setattr(EtcdClient, "version", old)
    prefix = f"/rdd/{tmp_path.name}"
    with pytest.raises(Unavailable, match=r"is too old; 3\.4 or newer is needed"):
        await EtcdStore.open(address_of(etcd_server, prefix), owner="tests")
    assert etcd_server.etcdctl("get", "--prefix", prefix) == ""


async def test_keys_are_readable_with_etcdctl(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    prefix = f"/rdd/{tmp_path.name}"
    store = await open_store(opened, address_of(etcd_server, prefix))
    await store.commit([Put("/registry/configmaps/default/a", b'{"kind":"ConfigMap"}')])
    key = f"{prefix}/keys/registry/configmaps/default/a"
    shown = etcd_server.etcdctl("get", "--print-value-only", key)
    assert shown.strip() == '{"kind":"ConfigMap"}'


async def test_copy_of_an_unused_prefix_is_refused(etcd_server: EtcdServer, tmp_path: Path) -> None:
    prefix = f"/rdd/{tmp_path.name}"
    database = tmp_path / "db" / "rdd.db"
    with pytest.raises(StoreError, match="is not the store of a control plane"):
        await copy_to_sqlite(address_of(etcd_server, prefix), database, owner="me")
    assert etcd_server.etcdctl("get", "--prefix", prefix) == ""
    assert not database.parent.exists()


async def test_backup_reads_leases_of_more_keys_than_a_page(
    etcd_server: EtcdServer,
    opened: list[EtcdStore],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "_PAGE", 3)
    store = await open_store(opened, address_of(etcd_server, f"/rdd/{tmp_path.name}"))
    await store.commit([Put(f"/{n}", b"1", ttl_s=3600 * (n % 2)) for n in range(10)])
    await store.backup(tmp_path / "copy.db")
    with contextlib.closing(schema.connect_reader(tmp_path / "copy.db")) as connection:
        rows = {key: expires for key, _, _, expires in connection.execute(schema.LIVE)}
    assert {key for key, expires in rows.items() if expires} == {f"/{n}" for n in (1, 3, 5, 7, 9)}


async def test_backup_opens_as_a_sqlite_store(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    store = await open_store(opened, address_of(etcd_server, f"/rdd/{tmp_path.name}"))
    await store.commit([Put("/a", b"1"), Put("/b", b"1"), Put("/event", b"1", ttl_s=3600)])
    await store.commit([Put("/b", b"2")])
    await store.backup(tmp_path / "copy.db")
    copy = await SqliteStore.open(tmp_path / "copy.db")
    try:
        assert copy.revision == store.revision
        assert (await copy.scan("")).records == (await store.scan("")).records
    finally:
        await copy.close()


async def test_tls_with_client_certificates(
    real_part: Callable[[str], Path], tmp_path: Path, opened: list[EtcdStore]
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    served = authority.issue_cert("127.0.0.1")
    served.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    for name, issuer in (("client", authority), ("stranger", stranger)):
        cert = issuer.issue_cert("client@example.com")
        cert.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        cert.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    server = EtcdServer(
        real_part("etcd"),
        tmp_path,
        f"--cert-file={tmp_path}/server.pem",
        f"--key-file={tmp_path}/server.pem",
        f"--trusted-ca-file={tmp_path}/ca.pem",
        "--client-cert-auth",
        scheme="https",
    )
    server.start()
    try:
        text = f"etcd://127.0.0.1:{server.port}/rdd/2?ca={tmp_path}/ca.pem"
        good = parse_address(f"{text}&cert={tmp_path}/client.pem&key={tmp_path}/client.key")
        store = await open_store(opened, good)
        assert await store.commit([Put("/a", b"1")])
        for wrong in (text, f"{text}&cert={tmp_path}/stranger.pem&key={tmp_path}/stranger.key"):
            with pytest.raises(Unavailable, match=f"etcd at 127.0.0.1:{server.port}: .*(?i:alert)"):
                await EtcdStore.open(parse_address(wrong), owner="tests")
        stranger.cert_pem.write_to_path(tmp_path / "ca.pem")
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await EtcdStore.open(good, owner="tests")
    finally:
        server.stop()


async def test_member_with_tls_needs_it(real_part: Callable[[str], Path], tmp_path: Path) -> None:
    authority = trustme.CA()
    served = authority.issue_cert("127.0.0.1")
    served.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    pem = tmp_path / "server.pem"
    server = EtcdServer(
        real_part("etcd"), tmp_path, f"--cert-file={pem}", f"--key-file={pem}", scheme="https"
    )
    server.start()
    try:
        with pytest.raises(StoreUnreachable, match=f"127.0.0.1:{server.port}: .*it may need TLS"):
            await EtcdStore.open(address_of(server, "/rdd/2"), owner="tests")
    finally:
        server.stop()


async def test_tls_to_a_member_without_it_is_reported(
    etcd_server: EtcdServer, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    text = f"etcd://127.0.0.1:{etcd_server.port}/rdd/2?ca={tmp_path}/ca.pem"
    with pytest.raises(StoreUnreachable, match="TLS handshake failed; without TLS, omit"):
        await EtcdStore.open(parse_address(text), owner="tests")


@pytest.mark.parametrize("version", ["etcd", "etcd-3.5"])
async def test_user_with_the_rights_of_the_prefix_suffices(
    real_part: Callable[[str], Path], tmp_path: Path, opened: list[EtcdStore], version: str
) -> None:
    server = EtcdServer(real_part(version), tmp_path)
    server.start()
    try:
        for command in (
            "user add root:secret",
            "user grant-role root root",
            "role add rdd",
            "role grant-permission rdd readwrite --prefix=true /rdd/2/",
            "user add team:pw",
            "user grant-role team rdd",
            "auth enable",
        ):
            server.etcdctl(*command.split())
        (tmp_path / "password").write_text("pw")
        text = f"etcd://team@127.0.0.1:{server.port}"
        store = await open_store(
            opened, parse_address(f"{text}/rdd/2?password-file={tmp_path}/password")
        )
        revision = await store.commit([Put("/a", b"1"), Put("/event", b"1", ttl_s=60)])
        assert await store.commit([Delete("/a", expect=revision)])
        await store.refresh()
        await store.backup(tmp_path / "copy.db")
        if version == "etcd":
            await store.compact(store.revision)
        else:  # newer releases let root compact only
            with pytest.raises(Unavailable, match="permission denied"):
                await store.compact(store.revision)
        other = parse_address(f"{text}/rdd/other?password-file={tmp_path}/password")
        with pytest.raises(Unavailable, match="permission denied"):
            await EtcdStore.open(other, owner="tests")
    finally:
        server.stop()


async def test_cluster_without_space_is_unreachable_until_there_is_some(
    real_part: Callable[[str], Path], tmp_path: Path, opened: list[EtcdStore]
) -> None:
    server = EtcdServer(real_part("etcd"), tmp_path, "--quota-backend-bytes=4000000")
    server.start()
    try:
        store = await open_store(opened, address_of(server, "/rdd/2"))
        with pytest.raises(StoreUnreachable, match="database space exceeded"):
            for number in range(100):
                await store.commit([Put("/a", b"%d" % number * 50_000)])
        record = await store.get("/a")
        assert record is not None
        await store.compact(record.revision)
        server.etcdctl("defrag")
        server.etcdctl("alarm", "disarm")
        assert await until_available(lambda: store.commit([Put("/a", b"1")]))
    finally:
        server.stop()


async def test_user_and_password(
    own_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    for command in ("user add root:secret", "user grant-role root root", "auth enable"):
        own_server.etcdctl(*command.split())
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "wrong").write_text("guess\n")
    text = f"etcd://root@127.0.0.1:{own_server.port}/rdd/2?password-file={tmp_path}"
    store = await open_store(opened, parse_address(f"{text}/password"))
    assert await store.commit([Put("/a", b"1")])
    with pytest.raises(Unavailable, match='user "root" is refused'):
        await EtcdStore.open(parse_address(f"{text}/wrong"), owner="tests")
    with pytest.raises(Unavailable):
        await EtcdStore.open(address_of(own_server, "/rdd/2"), owner="tests")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("http://a/b", "must begin with etcd://", id="scheme"),
        pytest.param("etcd://a:1", "has no prefix", id="no prefix"),
        pytest.param("etcd://a:1/", "has no prefix", id="empty prefix"),
        pytest.param("etcd://a:x/p", 'endpoint "a:x"', id="port"),
        pytest.param("etcd://,b/p", 'endpoint ""', id="empty endpoint"),
        pytest.param("etcd://u:geheim@a/p", "contains a password", id="password"),
        pytest.param("etcd://a/p?nope=1", 'unknown option "nope"', id="option"),
        pytest.param("etcd://a/p?ca=", 'option "ca" needs a value', id="empty option"),
        pytest.param("etcd://a/p?cert=c", '"cert" and "key" belong together', id="no key"),
        pytest.param("etcd://u@a/p", "belong together", id="no password"),
        pytest.param("etcd://a/p?shared=maybe", "must be true or false", id="shared"),
    ],
)
def test_malformed_address_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidAddress, match=message) as failure:
        parse_address(text)
    assert "geheim" not in str(failure.value)


def test_address_has_endpoints_and_options() -> None:
    found = parse_address("etcd://a,b:1,[::1]:2/team/rdd?ca=/ca.pem&shared=true")
    assert found.endpoints == (("a", 2379), ("b", 1), ("::1", 2))
    assert (found.prefix, found.ca, found.is_shared) == ("/team/rdd", Path("/ca.pem"), True)
    assert str(found) == "etcd://a:2379,b:1,[::1]:2/team/rdd"


async def test_interrupted_copy_is_not_served_and_continues(
    etcd_server: EtcdServer, opened: list[EtcdStore], tmp_path: Path
) -> None:
    address = address_of(etcd_server, f"/rdd/{tmp_path.name}")
    source = await SqliteStore.open(tmp_path / "source.db")
    for number in range(5):
        await source.commit(
            [Put(f"/{number}/{n}", b"v" * 20_000, ttl_s=60 * (n == 0)) for n in range(50)]
        )
    await source.close()

    def interrupt(done: int, total: int) -> None:
        if done > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_to_etcd(tmp_path / "source.db", address, owner="me", progress=interrupt)
    with pytest.raises(StoreInUse, match="incomplete copy for me"):
        await EtcdStore.open(address, owner="me")
    steps: list[int] = []
    count = await copy_to_etcd(
        tmp_path / "source.db", address, owner="me", progress=lambda done, _: steps.append(done)
    )
    assert count == 250
    assert steps[0] > 100  # what was there is not written again
    store = await open_store(opened, address, owner="me")
    assert len((await store.scan("")).records) == 250
    with pytest.raises(StoreInUse, match="is not empty"):
        await copy_to_etcd(
            tmp_path / "source.db", address, owner="me", progress=lambda done, total: None
        )
