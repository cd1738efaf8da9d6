# SPDX-License-Identifier: Apache-2.0
"""Wake-up of a paused machine of the type host: the time of a request that finds it frozen.

    python -m bench.idle [ROUNDS]

Root only. Prints a line of JSON with p50 and p99 of a Docker request and of one to a published
port, beside the same requests to a machine that runs, the context switches per second and the CPU
time of agent and dockerd before and during a pause, and the load.
"""

import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable

from tests.e2e.machine.host_world import Machine, fetch_once_served, free_port, host_world
from tests.e2e.machine.test_idle_host import configure, wait_paused

from rdd.vm.idle.settings import IdleSettings

_WINDOW_S = 10.0


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with host_world() as world:
        machine = world.machine("idle")
        machine.start()
        machine.docker.load_image()
        port = free_port()
        machine.docker.serve("web", "-p", f"{port}:80")
        fetch_once_served(port)
        requests: dict[str, Callable[[], None]] = {
            "docker": lambda: _ask_unix(str(machine.docker_socket)),
            "port": lambda: _ask_tcp(port),
        }
        found: dict[str, object] = {"load": os.getloadavg()[0]}
        found["before"] = _switches(machine)
        for name, ask in requests.items():
            found[f"{name} running"] = _summary([_timed(ask) for _ in range(rounds)])
        configure(machine, IdleSettings(action="pause", after_s=0.2))
        for name, ask in requests.items():
            times = []
            for _ in range(rounds):
                wait_paused(machine)
                times.append(_timed(ask))
            found[f"{name} paused"] = _summary(times)
        wait_paused(machine)
        time.sleep(7)  # within 5 s of the pause a thread of the agent ends
        found["paused"] = _switches(machine)
        configure(machine, IdleSettings())
        print(json.dumps(found))


def _timed(ask: Callable[[], None]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _summary(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {"p50_ms": round(cuts[49] * 1000, 1), "p99_ms": round(cuts[98] * 1000, 1)}


def _ask_unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"GET /containers/json HTTP/1.0\r\nHost: d\r\n\r\n")
        _read(client)


def _ask_tcp(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        _read(client)


def _read(client: socket.socket) -> None:
    answer = b""
    while chunk := client.recv(1 << 16):
        answer += chunk
    assert b" 200 " in answer.partition(b"\r\n")[0], answer


def _switches(machine: Machine) -> dict[str, dict[str, float]]:
    """Return voluntary context switches and CPU time per second of agent and engine."""
    pids = {"agent": machine.agent_pid, "dockerd": machine.engine_pid()}
    before = {name: counters(pid) for name, pid in pids.items()}
    time.sleep(_WINDOW_S)
    found = {}
    for name, pid in pids.items():
        switches, cpu_s = counters(pid)
        found[name] = {
            "switches_per_s": round((switches - before[name][0]) / _WINDOW_S, 2),
            "cpu_percent": round((cpu_s - before[name][1]) / _WINDOW_S * 100, 2),
        }
    return found


def counters(pid: int) -> tuple[int, float]:
    """Return context switches and CPU seconds of all threads of a process."""
    switches, ticks = 0, 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as status:
            switches += sum(int(line.split()[1]) for line in status if "ctxt" in line)
        with open(f"/proc/{pid}/task/{task}/stat") as stat:
            words = stat.read().rpartition(")")[2].split()
            ticks += int(words[11]) + int(words[12])
    return switches, ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
