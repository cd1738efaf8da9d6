# SPDX-License-Identifier: Apache-2.0
"""Forwards follow what listens in the guest."""

import asyncio
from collections.abc import Iterable

import pytest

from rdd.vm.drivers.protocol import Endpoint, Forward, ForwardError, Listener, NotForwarded
from rdd.vm.forwarding import forwarder as module
from rdd.vm.forwarding.forwarder import Forwarder, PortEvent
from rdd.vm.forwarding.rules import Rules
from rdd.vm.template.model import PortForward

WEB = Listener("tcp", "0.0.0.0", 80)
WEB6 = Listener("tcp", "::", 80)
LOCAL = Listener("tcp", "127.0.0.1", 81)
SSH = Listener("tcp", "0.0.0.0", 22)


class Carrier:
    """Carries nothing, but knows what it was asked for."""

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
        self.carrier = Carrier()
        self.events: list[PortEvent] = []
        rules = Rules(given, ssh_local_port=0)
        self.forwarder = Forwarder(rules, self.carrier, report=self.events.append)

    def told(self) -> list[str]:
        told = [f"{event.type} {event.guest} {event.host}".strip() for event in self.events]
        self.events.clear()
        return told


async def test_forwards_follow_listeners() -> None:
    world = World()
    await world.forwarder.update({WEB, LOCAL})
    assert world.told() == [
        "forwarding 0.0.0.0:80 127.0.0.1:80",
        "forwarding 127.0.0.1:81 127.0.0.1:81",
    ]
    await world.forwarder.update({LOCAL})
    assert world.told() == ["stopping 0.0.0.0:80 127.0.0.1:80"]
    assert world.carrier.open == ["127.0.0.1:81"]
    await world.forwarder.close()
    assert world.carrier.open == []


async def test_two_listeners_with_one_address_here_share_it_until_the_last_is_gone() -> None:
    world = World()
    await world.forwarder.update({WEB, WEB6})
    assert world.told() == ["forwarding 0.0.0.0:80 127.0.0.1:80"]
    await world.forwarder.update({WEB6})
    assert world.told() == []
    assert world.carrier.open == ["127.0.0.1:80"]
    await world.forwarder.update(set())
    assert world.carrier.open == []


async def test_what_stays_in_the_guest_is_told_once() -> None:
    world = World()
    await world.forwarder.update({SSH})
    await world.forwarder.update({SSH, LOCAL})
    assert world.told() == [
        "not-forwarding 0.0.0.0:22",
        "forwarding 127.0.0.1:81 127.0.0.1:81",
    ]


async def test_taken_address_is_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.001)
    world = World()
    world.carrier.refused["127.0.0.1:80"] = ForwardError("address already in use")
    await world.forwarder.update({WEB})
    assert [(event.type, event.error) for event in world.events] == [
        ("failed", "address already in use")
    ]
    assert world.forwarder.states()[0].error == "address already in use"
    world.told()
    for _ in range(2):
        world.carrier.tried.clear()
        await world.carrier.tried.wait()
    assert world.told() == []
    world.carrier.refused.clear()
    while not world.carrier.open:
        world.carrier.tried.clear()
        await world.carrier.tried.wait()
        await asyncio.sleep(0)
    assert world.told() == ["forwarding 0.0.0.0:80 127.0.0.1:80"]
    assert world.forwarder.states()[0].error == ""
    await world.forwarder.close()


async def test_failed_forward_is_not_tried_again_when_its_listener_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.001)
    world = World()
    world.carrier.refused["127.0.0.1:80"] = ForwardError("address already in use")
    await world.forwarder.update({WEB})
    await world.forwarder.update(set())
    world.carrier.refused.clear()
    await asyncio.sleep(0.01)
    assert world.carrier.open == []
    assert world.forwarder.states() == []


async def test_sockets_stay_when_no_port_is_listened_on_and_close_at_the_end() -> None:
    rule = PortForward(guest_ip="127.0.0.1", guest_socket="/run/a", host_socket="/tmp/a")
    world = World([rule])
    assert await world.forwarder.open_static() == []
    await world.forwarder.update({LOCAL})
    await world.forwarder.update(set())
    assert world.carrier.open == ["/tmp/a"]
    await world.forwarder.close()
    assert world.carrier.open == []


async def test_socket_that_cannot_be_had_is_a_reason() -> None:
    rule = PortForward(guest_ip="127.0.0.1", guest_socket="/run/a", host_socket="/tmp/a")
    world = World([rule])
    world.carrier.refused["/tmp/a"] = ForwardError("somebody has it", permanent=True)
    (failed,) = await world.forwarder.open_static()
    assert (failed.type, failed.error) == ("failed", "somebody has it")
    assert world.told() == ["failed /run/a /tmp/a"]


async def test_socket_the_guest_never_has_is_no_fault() -> None:
    rule = PortForward(guest_ip="127.0.0.1", guest_socket="/run/a", host_socket="/tmp/a")
    world = World([rule])
    world.carrier.refused["/tmp/a"] = NotForwarded("no such engine")
    assert await world.forwarder.open_static() == []
    assert world.told() == ["not-forwarding /run/a /tmp/a"]


async def test_states_tell_what_is_open() -> None:
    world = World()
    await world.forwarder.update({LOCAL})
    address = str(Endpoint("127.0.0.1", 81))
    assert world.forwarder.states() == [PortEvent("forwarding", "tcp", address, address)]
    await world.forwarder.close()
