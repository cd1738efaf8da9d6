# SPDX-License-Identifier: Apache-2.0
"""The veth pair between this host and an engine's network namespace, and its egress.

The pair has a /30 network of its own, in a private range that no route of this host overlaps.
Its outgoing packets are masqueraded. IP forwarding is enabled on this interface and on those
with a default route, not on the host as a whole; where it was disabled before, a final rule
drops packets that other hosts would now have forwarded.

All rules carry a comment of the machine, and only rules with that comment are ever removed:
those of a system Docker, of a firewall or of another instance stay unchanged. Without a
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
# dockerd's default pools; those that this host has routes to are excluded.
_POOLS = [Network(f"172.{number}.0.0/16") for number in range(17, 32)] + [Network("192.168.0.0/16")]
_PREFIX = re.compile(r"\b(\d+\.\d+\.\d+\.\d+)(/\d+)?\b")
_DEFAULT_DEVICE = re.compile(r"^default\b.*\bdev (\S+)", re.MULTILINE)
_CONF = Path("/proc/sys/net/ipv4/conf")
_RULES = 4  # of `enable_egress`, without those for uplinks
INSIDE = "eth0"  # the end in the namespace


@dataclass(frozen=True, slots=True)
class VethPair:
    link: str
    host_ip: str
    guest_ip: str
    prefix: int = 30


def routes() -> str:
    """Return all IPv4 routes of this host, of every table."""
    return output_of("ip", "-4", "route", "show", "table", "all")


def used_networks(text: str) -> list[Network]:
    """Return the networks in the output of `ip route`, without the default route."""
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
    """Yield unused /30 networks, in an order that depends on `seed`."""
    for range_ in _RANGES:
        count = 1 << (30 - range_.prefixlen)
        first = int(range_.network_address)
        for number in range(count):
            address = first + 4 * ((seed + number) % count)
            subnet = Network((address, 30))
            if not any(subnet.overlaps(network) for network in used):
                yield subnet


def container_pools(used: Sequence[Network]) -> list[str]:
    """Return the networks for containers; empty if the engine's defaults do not conflict."""
    free = [pool for pool in _POOLS if not any(pool.overlaps(network) for network in used)]
    return [] if len(free) == len(_POOLS) else [str(pool) for pool in free]


def create_veth(paths: MachinePaths, process: int) -> VethPair:
    """Connect the network namespace of a process with this host. Raises HostError."""
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
        if _is_unique(veth):
            return veth
        delete_veth(paths)  # another instance chose the same network concurrently
        used.append(subnet)
    raise HostError("no private network is free for the container engine")


def _is_unique(veth: VethPair) -> bool:
    """Return whether no other instance chose the same network; the older interface wins."""
    subnet = Network(f"{veth.host_ip}/{veth.prefix}", strict=False)
    shown = output_of("ip", "-4", "-oneline", "addr", "show").splitlines()
    same = [
        line.split()[1]
        for line in shown
        if ipaddress.ip_interface(line.split()[3]).network.overlaps(subnet)
    ]
    return same[:1] == [veth.link]  # in the order of creation


def configuration(veth: VethPair) -> str:
    """Return the commands for `ip -batch` in the namespace."""
    return (
        "link set lo up\n"
        f"addr add {veth.guest_ip}/{veth.prefix} dev {INSIDE}\n"
        f"link set {INSIDE} up\n"
        f"route add default via {veth.host_ip}\n"
    )


def delete_veth(paths: MachinePaths) -> None:
    """Remove the veth pair. Idempotent."""
    if paths.link in interfaces():
        with contextlib.suppress(HostError):  # it may disappear with the namespace at any moment
            output_of("ip", "link", "del", paths.link)


def interfaces() -> list[str]:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return [line.partition(":")[0].strip() for line in lines]


def wanted_uplinks(paths: MachinePaths, opened: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the interfaces on which rdd enabled forwarding, or has to enable it.

    `opened` are those recorded so far. Changes nothing: the caller records the result before
    it enables forwarding. Raises HostError.
    """
    uplinks = list(opened)
    for uplink in _DEFAULT_DEVICE.findall(routes()):
        # Another instance that enabled it may end first.
        is_shared = not is_forwarding("all") and bool(_other_machines(paths))
        if is_shared or not is_forwarding(uplink):
            uplinks.append(uplink)
    return tuple(dict.fromkeys(uplinks))


def enable_egress(paths: MachinePaths, veth: VethPair, uplinks: Sequence[str]) -> None:
    """Enable egress. Idempotent. Raises HostError when the firewall refuses.

    Called again when routes change or an agent adopts the machine.
    """
    present = interfaces()
    for interface in (veth.link, *uplinks):
        if interface in present and not is_forwarding(interface):
            _write_forwarding(interface, True)
    shown = output_of("iptables-save")
    if shown.count(paths.comment) == _RULES + len(uplinks):
        return
    _remove_rules(paths, shown)
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
    """Remove the rules with the comment of the machine, and no others. Raises HostError."""
    _remove_rules(paths, output_of("iptables-save"))


def _remove_rules(paths: MachinePaths, shown: str) -> None:
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
    """Disable forwarding where rdd enabled it, unless another machine needs it."""
    if _other_machines(paths) or is_forwarding("all"):
        return
    for uplink in uplinks:
        with contextlib.suppress(OSError, HostError):
            _write_forwarding(uplink, False)


def _other_machines(paths: MachinePaths) -> list[str]:
    return [name for name in interfaces() if name.startswith("rdd") and name != paths.link]


def is_forwarding(interface: str) -> bool:
    """Return whether IP forwarding is enabled on an interface."""
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
