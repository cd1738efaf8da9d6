# SPDX-License-Identifier: Apache-2.0
"""A fake host agent with configurable behaviour and a `sleep` process as its driver.

It implements the interface of an agent to its daemon: pid file and identity, event stream, log,
`ha.sock`, signals. `behaviour.json` in the instance directory configures it:

exit (code, before the pid file), no_pid, stop_s (duration of a shutdown), ignores_sigint, mute
(never responds on ha.sock), keep (refuses to detach), no_driver, events (statuses written after
the start), die_after (an exit code after the events), fork_child.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "src"))

from rdd.host.processes import identity, own_identity
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.process_files import write_pid_file


def event(status: dict[str, Any]) -> None:
    os.write(1, json.dumps({"time": "2026-01-01T00:00:00Z", "status": status}).encode() + b"\n")


def main() -> int:
    arguments = sys.argv[1:]
    directory = InstanceDirectory(Path(os.environ["LIMA_HOME"]) / arguments[-1])
    config = directory.path / "behaviour.json"
    behaviour: dict[str, Any] = json.loads(config.read_text()) if config.exists() else {}
    if "exit" in behaviour:
        os.write(2, b'{"level":"debug","msg":"loading"}\n{"level":"fatal","msg":"no disk"}\n')
        return int(behaviour["exit"])
    received: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: received.append(number))
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    directory.ha_sock.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(directory.ha_sock))
    server.listen()
    if not behaviour.get("no_pid"):
        write_pid_file(directory.ha_pid, own_identity())
    if behaviour.get("fork_child"):
        child = subprocess.Popen(["sleep", "600"])
        (directory.path / "child").write_text(str(child.pid))
    with (directory.path / "agents").open("a") as file:
        file.write(f"{os.getpid()}\n")
    adopted = directory.driver_process() is not None
    if not adopted and not behaviour.get("no_driver"):
        driver = subprocess.Popen(["sleep", "600"], start_new_session=True)
        found = identity(driver.pid)
        assert found is not None
        write_pid_file(directory.pid_file(directory.driver or "host"), found)
    event({"sshLocalPort": 60022})
    for status in behaviour.get("events", [{"running": True, "sshLocalPort": 60022}]):
        event(status)
    if "die_after" in behaviour:
        os.write(2, b'{"level":"error","msg":"gone wrong"}\n')
        return int(behaviour["die_after"])
    return serve(directory, behaviour, server, reader, received)


def serve(
    directory: InstanceDirectory,
    behaviour: dict[str, Any],
    server: socket.socket,
    reader: socket.socket,
    received: list[int],
) -> int:
    import select

    while True:
        readable, _, _ = select.select([server, reader], [], [])
        if reader in readable:
            reader.recv(100)
        if received and not behaviour.get("ignores_sigint"):
            return stop(directory, behaviour)
        if server in readable and not behaviour.get("mute"):
            connection, _ = server.accept()
            request = connection.recv(4096)
            keep = behaviour.get("keep")
            code = b"404 Not Found" if keep or b"let-go" not in request else b"200 OK"
            body = b"{}" if keep else b'{"letGo": true}'
            connection.sendall(b"HTTP/1.1 " + code + b"\r\nConnection: close\r\n\r\n" + body)
            connection.close()
            if code == b"200 OK":
                leave(directory)
                return 0


def stop(directory: InstanceDirectory, behaviour: dict[str, Any]) -> int:
    began = time.monotonic()
    time.sleep(behaviour.get("stop_s", 0))
    driver = directory.driver_process()
    if driver is not None:
        os.kill(driver.pid, signal.SIGTERM)
        for suffix in ("pid", "identity"):
            (directory.path / f"{directory.driver}.{suffix}").unlink()
    event({"exiting": True})
    times = {"began": began, "ended": time.monotonic()}
    (directory.path / "stopped-gracefully").write_text(json.dumps(times))
    leave(directory)
    return 0


def leave(directory: InstanceDirectory) -> None:
    for path in (directory.ha_pid, directory.ha_identity, directory.ha_sock):
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
