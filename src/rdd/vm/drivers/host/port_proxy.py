# SPDX-License-Identifier: Apache-2.0
"""dockerd's userland proxy: requests a published port from the host agent first.

A program of its own (`port_proxy.py SOCKET DOCKER-PROXY ARGUMENT…`) that imports nothing of
rdd. dockerd (`--userland-proxy-path`) starts it in
the engine's namespaces for every published port, with the arguments of docker-proxy, and waits
for a status on descriptor 3: `0`, or `1` and an error, with which the start of the container
fails. Newer versions also pass a listening socket on descriptor 4.

The agent listens on the address of the real host, or responds why it cannot; the error then
has the form of docker-proxy's. The connection to the agent stays open as long as the port is
published: its end, for any reason, closes the port. Then this process becomes docker-proxy,
which listens inside, so that containers reach each other through published ports, and keeps the
connection. An address that only the real host has cannot be used inside: this process then
stays, and requests the port again from the next agent.

Without an agent the program continues after a while. The next agent forwards all ports on
which docker-proxy listens.
"""

import json
import os
import signal
import socket
import sys
import time

STATUS = 3
_WAIT_S = 8.0  # dockerd gives up after 16 s
_ANSWER_S = 6.0
_RETRY_S = 0.05
_PROTOCOLS = ("tcp", "udp")  # no agent forwards sctp


def main() -> None:
    agent, real, *words = sys.argv[1:]
    options = _options(words)
    protocol = options.get("proto", "tcp")
    if protocol in _PROTOCOLS:
        request = {
            "protocol": protocol,
            "ip": options.get("host-ip", ""),
            "port": int(options.get("host-port", "0")),
            "containerIp": options.get("container-ip", ""),
            "containerPort": int(options.get("container-port", "0")),
        }
        connection, answer = _publish(agent, request, time.monotonic() + _WAIT_S)
        if error := answer.get("error"):
            _report(f"1\n{error}")
            sys.exit(1)
        if connection is not None:
            if answer.get("isOutside"):
                _stay(agent, connection, request)
            os.set_inheritable(connection.fileno(), True)
            connection.detach()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.execv(real, [real, *words])


def _options(words: "list[str]") -> "dict[str, str]":
    """Return the flags: `-name value`, `-name=value` or `-name`."""
    found = {}
    for number, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-"):
            after = words[number + 1] if number + 1 < len(words) else ""
            found[name] = value if equals else after
    return found


def _publish(
    agent: str, request: "dict[str, object]", deadline: float
) -> "tuple[socket.socket | None, dict[str, object]]":
    """Return the connection and the answer of the agent; no connection without an agent."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ANSWER_S)
        try:
            connection.connect(agent)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                chunk = connection.recv(4096)
                if not chunk:
                    raise OSError("the host agent has ended")
                answer += chunk
            connection.settimeout(None)
            return connection, json.loads(answer)
        except OSError:
            connection.close()
            if time.monotonic() >= deadline:
                return None, {}
            time.sleep(_RETRY_S)


def _stay(agent: str, connection: socket.socket, request: "dict[str, object]") -> None:
    """Keep the port published until dockerd ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _report("0\n")
    while True:
        while connection.recv(4096):
            pass
        connection.close()
        again = None
        while again is None:
            again, answer = _publish(agent, request, time.monotonic())
            if again is not None and answer.get("error"):
                again.close()
                again = None
            if again is None:
                time.sleep(1)
        connection = again


def _report(text: str) -> None:
    os.write(STATUS, text.encode())
    os.close(STATUS)


if __name__ == "__main__":
    main()
