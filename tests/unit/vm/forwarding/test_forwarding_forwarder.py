# SPDX-License-Identifier: Apache-2.0
"""Forwards follow the listeners in the guest."""

import asyncio
import errno
from collections.abc import Iterable

import pytest

from rdd.vm.drivers.protocol import Endpoint, Forward, ForwardError, Listener, NotForwarded
from rdd.vm.forwarding import forwarder as module
from rdd.vm.forwarding.forwarder import Forwarder, PortEvent
from rdd.vm.forwarding.rules import ForwardingRules
from rdd.vm.problem import ADDRESS_IN_USE, Problem
from rdd.vm.template.model import PortForward

WEB = Listener("tcp", "0.0.0.0", 80)
WEB6 = Listener("tcp", "::", 80)
LOCAL = Listener("tcp", "127.0.0.1", 81)
SSH = Listener("tcp", "0.0.0.0", 22)


class FakeDriver:
    """Records the forwards that are open; refuses the addresses in `refused`."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.refused: dict[str, ForwardError] = {}
        self.tried = asyncio.Event()

    async def open_forward(self, forward: Forward) -> None:
        self.tried.set()
        host = str(forward.host)
        if host in self.refused:
            raise self.refused[host]
        assert host not in self.open
        self.open.append(host)

    async def close_forward(self, forward: Forward) -> None:
        self.open.remove(str(forward.host))


class World:
    def __init__(self, given: Iterable[PortForward] = ()) -> None:
        self.driver = FakeDriver()
        self.events: list[PortEvent] = []
        rules = ForwardingRules(given, ssh_local_port=0, has_ipv6=True)
        self.forwarder = Forwarder(rules, self.driver, report=self.events.append)

    def reported(self) -> list[str]:
        reported = [f"{event.type} {event.guest} {event.host}".strip() for event in self.events]
        self.events.clear()
        return reported


async def test_forwards_follow_listeners() -> None:
    world = World()
    await world.forwarder.update({WEB, LOCAL})
    assert world.reported() == [
        "forwarding 0.0.0.0:80 127.0.0.1:80",
        "forwarding 127.0.0.1:81 127.0.0.1:81",
    ]
    await world.forwarder.update({LOCAL})
    assert world.reported() == ["stopping 0.0.0.0:80 127.0.0.1:80"]
    assert world.driver.open == ["127.0.0.1:81"]
    await world.forwarder.close()
    assert world.driver.open == []


async def test_host_address_closes_with_its_last_listener() -> None:
    world = World()
    await world.forwarder.update({WEB, WEB6})
    assert world.reported() == ["forwarding 0.0.0.0:80 127.0.0.1:80"]
    await world.forwarder.update({WEB6})
    assert world.reported() == []
    assert world.driver.open == ["127.0.0.1:80"]
    await world.forwarder.update(set())
    assert world.driver.open == []


async def test_unforwarded_listener_is_reported_once() -> None:
    world = World()
    await world.forwarder.update({SSH})
    await world.forwarder.update({SSH, LOCAL})
    assert world.reported() == [
        "not-forwarding 0.0.0.0:22",
        "forwarding 127.0.0.1:81 127.0.0.1:81",
    ]


async def test_failed_forward_is_reported_once_and_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.001)
    world = World()
    world.driver.refused["127.0.0.1:80"] = ForwardError(
        "address already in use", reason=ADDRESS_IN_USE
    )
    await world.forwarder.update({WEB})
    assert [(event.type, event.error, event.reason) for event in world.events] == [
        ("failed", "address already in use", "AddressInUse")
    ]
    assert world.forwarder.states()[0].error == "address already in use"
    world.reported()
    for _ in range(2):
        world.driver.tried.clear()
        await world.driver.tried.wait()
    assert world.reported() == []
    world.driver.refused.clear()
    while not world.driver.open:
        world.driver.tried.clear()
        await world.driver.tried.wait()
        await asyncio.sleep(0)
    assert world.reported() == ["forwarding 0.0.0.0:80 127.0.0.1:80"]
    assert world.forwarder.states()[0].error == ""
    await world.forwarder.close()


async def test_failed_forward_is_not_retried_without_its_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.001)
    world = World()
    world.driver.refused["127.0.0.1:80"] = ForwardError("address already in use")
    await world.forwarder.update({WEB})
    await world.forwarder.update(set())
    world.driver.refused.clear()
    await asyncio.sleep(0.01)
    assert world.driver.open == []
    assert world.forwarder.states() == []


async def test_static_forward_does_not_depend_on_listeners() -> None:
    rule = PortForward(guest_ip="127.0.0.1", guest_socket="/run/a", host_socket="/tmp/a")
    world = World([rule])
    assert await world.forwarder.open_static() == []
    await world.forwarder.update({LOCAL})
    await world.forwarder.update(set())
    assert world.driver.open == ["/tmp/a"]
    await world.forwarder.close()
    assert world.driver.open == []


async def test_failed_static_forwards_are_returned_as_problems() -> None:
    rules = (
        PortForward(guest_ip="127.0.0.1", guest_socket="/run/a", host_socket="/tmp/a"),
        PortForward(guest_ip="127.0.0.1", guest_port_range=(6443, 6443), static=True, proto="tcp"),
    )
    world = World(rules)
    world.driver.refused["/tmp/a"] = ForwardError("no such engine", permanent=True)
    world.driver.refused["127.0.0.1:6443"] = ForwardError.from_os(
        "cannot listen", OSError(errno.EADDRINUSE, "Address already in use")
    )
    assert await world.forwarder.open_static() == [
        Problem("no such engine", host_address="/tmp/a"),
        Problem("cannot listen: Address already in use", "AddressInUse", "127.0.0.1:6443", 6443),
    ]
    assert world.reported() == [
        "failed /run/a /tmp/a",
        "failed 127.0.0.1:6443 127.0.0.1:6443",
    ]
    await world.forwarder.close()


async def test_socket_that_the_guest_never_has_is_no_problem() -> None:
    rule = PortForward(guest_ip="127.0.0.1", guest_socket="/run/a", host_socket="/tmp/a")
    world = World([rule])
    world.driver.refused["/tmp/a"] = NotForwarded("no such engine")
    assert await world.forwarder.open_static() == []
    assert world.reported() == ["not-forwarding /run/a /tmp/a"]


async def test_states_list_open_forwards() -> None:
    world = World()
    await world.forwarder.update({LOCAL})
    address = str(Endpoint("127.0.0.1", 81))
    assert world.forwarder.states() == [PortEvent("forwarding", "tcp", address, address)]
    await world.forwarder.close()


EVERYWHERE = PortForward(
    guest_ip="0.0.0.0",
    guest_ip_must_be_zero=True,
    guest_port_range=(1, 65535),
    host_ip="0.0.0.0",
    host_port_range=(1, 65535),
)


async def test_listener_on_all_ipv6_addresses_is_forwarded_from_both_versions() -> None:
    world = World([EVERYWHERE])
    await world.forwarder.update({WEB6})
    assert sorted(world.driver.open) == ["0.0.0.0:80", "[::]:80"]
    await world.forwarder.update({WEB})
    assert world.driver.open == ["0.0.0.0:80"]


async def test_published_port_is_open_before_its_listener_and_until_both_have_gone() -> None:
    world = World([EVERYWHERE])
    publication = await world.forwarder.publish(WEB)
    assert world.driver.open == ["0.0.0.0:80"]
    await world.forwarder.update({LOCAL})  # a scan from before the engine listens
    assert "0.0.0.0:80" in world.driver.open
    await world.forwarder.update({WEB})
    await world.forwarder.unpublish(publication)
    assert world.driver.open == ["0.0.0.0:80"]
    await world.forwarder.update(set())
    assert world.driver.open == []


async def test_released_port_is_closed_without_a_scan() -> None:
    world = World([EVERYWHERE])
    first, second = [await world.forwarder.publish(WEB) for _ in range(2)]
    await world.forwarder.unpublish(first)
    assert world.driver.open == ["0.0.0.0:80"]
    await world.forwarder.unpublish(second)
    assert world.driver.open == []
    assert world.reported() == [
        "forwarding 0.0.0.0:80 0.0.0.0:80",
        "stopping 0.0.0.0:80 0.0.0.0:80",
    ]


async def test_published_ports_keep_their_ip_version() -> None:
    world = World([EVERYWHERE])
    await world.forwarder.publish(WEB6)
    await world.forwarder.publish(Listener("tcp", "::1", 81))
    assert world.driver.open == ["[::]:80", "[::1]:81"]


async def test_failed_publication_is_neither_kept_nor_retried() -> None:
    world = World([EVERYWHERE])
    error = ForwardError.from_os("x", OSError(errno.EADDRINUSE, "Address already in use"))
    world.driver.refused["0.0.0.0:80"] = error
    with pytest.raises(ForwardError) as raised:
        await world.forwarder.publish(WEB)
    assert raised.value.cause == "Address already in use"
    assert (world.forwarder.states(), world.reported()) == ([], [])


async def test_address_that_only_this_host_has_leads_to_its_target() -> None:
    world = World([EVERYWHERE])
    target = Endpoint(ip="172.17.0.2", port=8080)
    await world.forwarder.publish(Listener("tcp", "192.0.2.1", 80), target=target)
    assert world.reported() == ["forwarding 172.17.0.2:8080 192.0.2.1:80"]
    await world.forwarder.publish(Listener("tcp", "10.0.0.1", 22))  # no rule: not forwarded
    assert world.driver.open == ["192.0.2.1:80"]
