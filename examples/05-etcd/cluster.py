# SPDX-License-Identifier: Apache-2.0
"""Start three etcd members and two control planes that share them, and use both."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def start_members(directory: Path) -> tuple[list[subprocess.Popen[bytes]], list[int]]:
    """Start a cluster of three members; return their processes and client ports."""
    ports = free_ports(6)
    clients, peers = ports[:3], ports[3:]
    cluster = ",".join(f"m{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers))
    members = []
    for n, (client, peer) in enumerate(zip(clients, peers, strict=True)):
        command = [
            "etcd",
            f"--name=m{n}",
            f"--data-dir={directory}/m{n}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster={cluster}",
            "--log-level=error",
        ]
        log = (directory / f"m{n}.log").open("wb")
        members.append(subprocess.Popen(command, stdout=log, stderr=log))
        log.close()
    return members, clients


def rdd(instance: str, *words: str) -> None:
    """Run rdd for an instance; retry while the cluster elects its leader."""
    command = ["rdd", "--instance", instance, *words]
    for _ in range(30):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        time.sleep(1)
    raise SystemExit(done.stderr)


def kubectl(instance: str, *words: str) -> str:
    """Run kubectl at the API server of an instance; retry while etcd elects a new leader."""
    command = ["rdd", "--instance", instance, "ctl", *words]
    for _ in range(30):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 or "already exists" in done.stderr:
            return done.stdout.strip()
        time.sleep(1)
    raise SystemExit(done.stderr)


def main() -> None:
    """Run the cluster, use it, remove it."""
    directory = Path(tempfile.mkdtemp(prefix="rdd-etcd-"))
    members, ports = start_members(directory)
    endpoints = ",".join(f"127.0.0.1:{port}" for port in ports)
    try:
        print("three members of etcd serve one cluster")
        store = f"etcd://{endpoints}/rdd/example?shared=true"
        for instance in ("one", "two"):
            rdd(instance, "service", "create", "--controllers=", "--store", store)
            rdd(instance, "service", "start")
        print("one and two serve the API from it")
        kubectl("one", "create", "configmap", "shared")
        print("created at one, read at two:", kubectl("two", "get", "cm/shared", "-o", "name"))
        members[0].kill()
        kubectl("two", "create", "configmap", "still-here")
        read = kubectl("one", "get", "cm/still-here", "-o", "name")
        print("with one member killed, created at two, read at one:", read)
        if sys.stdin.isatty():
            input("use `rdd --instance one ctl …` and two; Enter removes everything ")
    finally:
        for instance in ("one", "two"):
            rdd(instance, "service", "delete", "--yes")
        for member in members:
            member.kill()
            member.wait()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
