# SPDX-License-Identifier: Apache-2.0
"""The veth between this machine and an engine's network namespace, and the way out.

A pair of virtual interfaces with a /30 of its own, in a private range that no route of this
machine touches. What comes from it is masqueraded. Forwarding of packets is switched on for
this interface and for those with a default route, not for the machine as a whole; where that
was off before, a last rule drops what others would now have forwarded through us.

All rules carry a comment of ours, and only rules with that comment are ever removed: those of
a Docker of the system, of a firewall or of another instance stay as they are. Without a
network, or without a firewall that can masquerade, containers run and reach each other.
"""

import contextlib
import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.host.errors import HostError
from rdd.vm.drivers.host.commands import output_of
from rdd.vm.drivers.host.paths import MachinePaths

Network = ipaddress.IPv4Network

_RANGES = [Network(text) for text in ("10.133.0.0/16", "172.30.0.0/16", "192.168.133.0/24")]
# The pools of dockerd itself, from which those are left out that this machine can reach.
_POOLS = [Network(f"172.{number}.0.0/16") for number in range(17, 32)] + [Network("192.168.0.0/16")]
_PREFIX = re.compile(r"\b(\d+\.\d+\.\d+\.\d+)(/\d+)?\b")
_DEFAULT_DEVICE = re.compile(r"^default\b.*\bdev (\S+)", re.MULTILINE)
_CONF = Path("/proc/sys/net/ipv4/conf")
_RULES = 4  # of `enable_egress`, without those for uplinks
INSIDE = "eth0"  # what the engine calls its end


@dataclass(frozen=True, slots=True)
class VethPair:
    """A connected pair of interfaces."""

    link: str
    host_ip: str
    guest_ip: str
    prefix: int = 30


def routes() -> str:
    """All IPv4 routes of this machine, of every table."""
    return output_of("ip", "-4", "route", "show", "table", "all")


def used_networks(text: str) -> list[Network]:
    """The networks that `ip route` shows, without the default route."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in ("local", "broadcast", "unreachable", "blackhole", "prohibit"):
            words = words[1:]
        match = _PREFIX.fullmatch(words[0]) if words else None
        if match and match[1] != "0.0.0.0":
            with contextlib.suppress(ValueError):
                found.append(Network(match[1] + (match[2] or "/32"), strict=False))
    return found


def free_subnets(used: Sequence[Network], *, seed: int) -> Iterator[Network]:
    """/30 networks that overlap with nothing, in an order that differs by `seed`."""
    for range_ in _RANGES:
        count = 1 << (30 - range_.prefixlen)
        first = int(range_.network_address)
        for number in range(count):
            address = first + 4 * ((seed + number) % count)
            subnet = Network((address, 30))
            if not any(subnet.overlaps(network) for network in used):
                yield subnet


def container_pools(used: Sequence[Network]) -> list[str]:
    """The networks containers may have; empty when the engine's own choice does no harm."""
    free = [pool for pool in _POOLS if not any(pool.overlaps(network) for network in used)]
    return [] if len(free) == len(_POOLS) else [str(pool) for pool in free]


def create_veth(paths: MachinePaths, process: int) -> VethPair:
    """Connect the namespace of a process with this machine. Raises HostError."""
    used = used_networks(routes())
    for subnet in free_subnets(used, seed=int(paths.tag, 16)):
        host, guest = (str(address) for address in subnet.hosts())
        veth = VethPair(paths.link, host, guest)
        commands = (
            f"link add {veth.link} type veth peer name {INSIDE} netns {process}\n"
            f"addr add {host}/{veth.prefix} dev {veth.link}\n"
            f"link set {veth.link} up\n"
        )
        output_of("ip", "-batch", "-", text=commands)
        if _is_alone(veth):
            return veth
        delete_veth(paths)  # another instance took the same at the same moment
        used.append(subnet)
    raise HostError("no private network is free for the container engine")


def _is_alone(veth: VethPair) -> bool:
    """Whether nobody took the same network at the same moment; of two, the older one stays."""
    subnet = Network(f"{veth.host_ip}/{veth.prefix}", strict=False)
    shown = output_of("ip", "-4", "-oneline", "addr", "show").splitlines()
    same = [
        line.split()[1]
        for line in shown
        if ipaddress.ip_interface(line.split()[3]).network.overlaps(subnet)
    ]
    return same[:1] == [veth.link]  # in the order of their making


def configuration(veth: VethPair) -> str:
    """What `ip -batch` does inside."""
    return (
        "link set lo up\n"
        f"addr add {veth.guest_ip}/{veth.prefix} dev {INSIDE}\n"
        f"link set {INSIDE} up\n"
        f"route add default via {veth.host_ip}\n"
    )


def delete_veth(paths: MachinePaths) -> None:
    """Remove the veth if it is there."""
    if paths.link in interfaces():
        with contextlib.suppress(HostError):  # it goes with the namespace at any moment
            output_of("ip", "link", "del", paths.link)


def interfaces() -> list[str]:
    """The interfaces of this machine."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return [line.partition(":")[0].strip() for line in lines]


def wanted_uplinks(paths: MachinePaths, opened: Sequence[str] = ()) -> tuple[str, ...]:
    """The interfaces on which forwarding is on because of us, or has to be switched on.

    `opened` are those known so far. Nothing is changed: what is to be undone is written down
    before it is done. Raises HostError.
    """
    uplinks = list(opened)
    for uplink in _DEFAULT_DEVICE.findall(routes()):
        # Another instance that switched it on may end before us.
        is_shared = not is_forwarding("all") and bool(_others(paths))
        if is_shared or not is_forwarding(uplink):
            uplinks.append(uplink)
    return tuple(dict.fromkeys(uplinks))


def enable_egress(paths: MachinePaths, veth: VethPair, uplinks: Sequence[str]) -> None:
    """Let packets through. Raises HostError when the firewall refuses.

    May be called again, when routes have changed or another agent has taken over.
    """
    present = interfaces()
    for interface in (veth.link, *uplinks):
        if interface in present and not is_forwarding(interface):
            _write_forwarding(interface, True)
    shown = output_of("iptables-save")
    if shown.count(paths.comment) == _RULES + len(uplinks):
        return
    _close(paths, shown)
    mark = f"-m comment --comment {paths.comment}"
    link = veth.link
    rules = [
        "*nat",
        f"-A POSTROUTING -s {veth.guest_ip}/32 ! -o {link} {mark} -j MASQUERADE",
        "COMMIT",
        "*filter",
        f"-I FORWARD -i {link} {mark} -j ACCEPT",
        f"-I FORWARD -o {link} -m conntrack --ctstate RELATED,ESTABLISHED {mark} -j ACCEPT",
        f"-A FORWARD -o {link} {mark} -j DROP",
        *(f"-A FORWARD -i {uplink} {mark} -j DROP" for uplink in uplinks),
        "COMMIT",
        "",
    ]
    output_of("iptables-restore", "--noflush", "--wait", text="\n".join(rules))


def disable_egress(paths: MachinePaths) -> None:
    """Remove the rules with our comment, and no others. Raises HostError."""
    _close(paths, output_of("iptables-save"))


def _close(paths: MachinePaths, shown: str) -> None:
    if paths.comment not in shown:
        return
    lines: list[str] = []
    for line in shown.splitlines():
        if line.startswith("*") or line == "COMMIT":
            lines.append(line)
        elif line.startswith("-A ") and re.search(rf'--comment "?{paths.comment}"?(\s|$)', line):
            lines.append("-D " + line[3:])
    output_of("iptables-restore", "--noflush", "--wait", text="\n".join(lines) + "\n")


def restore_forwarding(paths: MachinePaths, uplinks: Iterable[str]) -> None:
    """Switch forwarding off where we switched it on, unless somebody needs it by now."""
    if _others(paths) or is_forwarding("all"):
        return
    for uplink in uplinks:
        with contextlib.suppress(OSError, HostError):
            _write_forwarding(uplink, False)


def _others(paths: MachinePaths) -> list[str]:
    return [name for name in interfaces() if name.startswith("rdd") and name != paths.link]


def is_forwarding(interface: str) -> bool:
    """Whether packets that come in here may go out elsewhere."""
    try:
        return (_CONF / interface / "forwarding").read_text().strip() == "1"
    except OSError:
        return False


def _write_forwarding(interface: str, on: bool) -> None:
    path = _CONF / interface / "forwarding"
    try:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, b"1" if on else b"0")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError.from_os(f'write "{path}"', error) from error
