# SPDX-License-Identifier: Apache-2.0
"""One call of the built-in client: its flags, its streams, its way to the server.

Everything that costs time (reading the kubeconfig, connecting, discovery)
happens when a verb first asks for it.
"""

import json
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, TextIO

from rdd.base.gotext import parse_duration
from rdd.base.pflag import Flags
from rdd.kubectl.failures import CtlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rdd.kubectl.connection import Connection
    from rdd.kubectl.discovery import Discovery
    from rdd.kubectl.kubeconfig import Kubeconfig, Target


class Streams(NamedTuple):
    """Where a call reads from and writes to."""

    out: TextIO
    err: TextIO
    stdin: TextIO


class Session:
    """What a verb works with."""

    def __init__(
        self, flags: Flags, args: list[str], streams: Streams, variables: Mapping[str, str]
    ) -> None:
        self.flags = flags
        self.args = args
        self.out, self.err, self.stdin = streams
        self.variables = variables
        self.dash = -1
        """How many of the arguments came before `--`; -1 without one."""

    @cached_property
    def kubeconfig(self) -> "Kubeconfig":
        """The merged kubeconfig."""
        from rdd.kubectl.kubeconfig import locate

        return locate(self.flags, self.variables)

    @cached_property
    def target(self) -> "Target":
        """The server and the identity."""
        return self.kubeconfig.target(self.flags)

    @cached_property
    def api(self) -> "Connection":
        """The connection to the server."""
        from rdd.kubectl.connection import Connection

        return Connection(
            self.target,
            self.err,
            timeout=self.request_timeout or None,
            verbosity=self.flags.integer("v"),
        )

    @cached_property
    def resources(self) -> "Discovery":
        """What the server has."""
        from rdd.kubectl.discovery import discover

        return discover(self.api)

    @property
    def namespace(self) -> str:
        """The namespace that applies when none is written: flag, context, `default`."""
        return self.flags.text("namespace") or self.target.namespace or "default"

    @property
    def request_timeout(self) -> float:
        """Seconds to wait for one answer; 0 for ever."""
        text = self.flags.text("request-timeout")
        if text.isdecimal():
            return float(text)
        try:
            return parse_duration(text)
        except ValueError:
            raise CtlError(
                f"Invalid timeout value {text!r}. Timeout must be a single integer in seconds, or"
                " an integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)"
            ) from None

    def deadline(self, seconds: float) -> float | None:
        """The end of a wait of so many seconds on the monotonic clock; None for 0."""
        return time.monotonic() + seconds if seconds else None

    def close(self) -> None:
        """Give up the connection, if there is one."""
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
    """A value as Go's json.Marshal writes it: sorted, compact, safe inside HTML."""
    return escape_html(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def escape_html(text: str) -> str:
    """JSON with the characters escaped that mean something to HTML and JavaScript."""
    return text.translate(_HTML)


_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
