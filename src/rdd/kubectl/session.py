# SPDX-License-Identifier: Apache-2.0
"""One call of the built-in client: its flags, its streams, its connection to the server.

Everything that costs time (reading the kubeconfig, connecting, discovery) happens
when a verb first uses it.
"""

import json
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, TextIO

from rdd.base.gotext import parse_duration
from rdd.base.pflag import Flags
from rdd.kubectl.errors import KubectlError, NoSuchResource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rdd.client.blocking import Connection, Exchange
    from rdd.client.discovery import ServerResources
    from rdd.client.kubeconfig import ConnectionConfig, Kubeconfig
    from rdd.client.resources import ApiResource


class Streams(NamedTuple):
    """Standard streams of a call."""

    out: TextIO
    err: TextIO
    stdin: TextIO


class Session:
    """Flags, streams and server of one call of a verb."""

    def __init__(
        self, flags: Flags, args: list[str], streams: Streams, variables: Mapping[str, str]
    ) -> None:
        self.flags = flags
        self.args = args
        self.out, self.err, self.stdin = streams
        self.variables = variables
        self.dash = -1
        """Number of arguments before `--`; -1 without one."""

    @cached_property
    def kubeconfig(self) -> "Kubeconfig":
        from rdd.kubectl.kubeconfig import locate

        return locate(self.flags, self.variables)

    @cached_property
    def config(self) -> "ConnectionConfig":
        """Address and credentials, with the flags applied."""
        from rdd.kubectl.kubeconfig import connection_config

        return connection_config(self.kubeconfig, self.flags)

    @cached_property
    def api(self) -> "Connection":
        """The connection to the server."""
        from rdd.client.blocking import Connection

        return Connection(
            self.config,
            timeout_s=self.request_timeout or None,
            on_warning=lambda text: self.warn(f"Warning: {text}"),
            on_exchange=self._log_exchange if self.flags.integer("v") >= 6 else None,
        )

    @cached_property
    def resources(self) -> "ServerResources":
        return self.api.discover()

    def resource(self, word: str) -> "ApiResource":
        """Return the resource that a user means by a word. Raises NoSuchResource."""
        found = self.resources.find(word)
        if found is None:
            raise NoSuchResource(word.lower().partition(".")[0])
        return found

    def _log_exchange(self, exchange: "Exchange") -> None:
        milliseconds = round(exchange.seconds * 1000)
        self.warn(
            f"{exchange.method} {exchange.url} {exchange.status} {exchange.reason}"
            f" in {milliseconds} ms"
        )
        if self.flags.integer("v") >= 8:
            bodies = (("Request", exchange.request_body), ("Response", exchange.reply_body))
            for name, body in bodies:
                if body:
                    self.warn(f"{name} Body: {body.decode(errors='replace')}")

    @property
    def namespace(self) -> str:
        """The namespace of the flag, of the context, or `default`."""
        return self.flags.text("namespace") or self.config.namespace or "default"

    @property
    def request_timeout(self) -> float:
        """Seconds to wait for a reply; 0: no limit."""
        text = self.flags.text("request-timeout")
        if text.isdecimal():
            return float(text)
        try:
            return parse_duration(text)
        except ValueError:
            raise KubectlError(
                f"Invalid timeout value {text!r}. Timeout must be a single integer in seconds, or"
                " an integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)"
            ) from None

    def deadline(self, seconds: float) -> float | None:
        """Return the end of a wait on the monotonic clock; None for 0 seconds."""
        return time.monotonic() + seconds if seconds else None

    def close(self) -> None:
        """Close the connection, if it was opened."""
        if "api" in vars(self):
            self.api.close()

    def print(self, *lines: str) -> None:
        """Write lines to stdout."""
        for line in lines:
            self.out.write(f"{line}\n")

    def warn(self, line: str) -> None:
        """Write a line to stderr."""
        self.err.write(f"{line}\n")


def compact(value: Any) -> str:
    """Encode a value as Go's json.Marshal does: sorted, compact, safe inside HTML."""
    return escape_html(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def escape_html(text: str) -> str:
    """Escape the characters of JSON that are special in HTML and JavaScript."""
    return text.translate(_HTML)


_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
