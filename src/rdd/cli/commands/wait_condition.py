# SPDX-License-Identifier: Apache-2.0
"""`rdd ctl wait-condition`: wait for a condition of an object.

Unlike `kubectl wait`, it waits for objects that do not exist yet, can match a reason,
and can require a transition after a point in time: with `--since startup` a condition
that was true before a restart does not match.
"""

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.declarations import GLOBAL
from rdd.cli.framework.connection import credentials
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.flags import Parser
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call, Flag, Flags
from rdd.kubectl.errors import FAILURES

if TYPE_CHECKING:
    from rdd.client.resources import ApiResource
    from rdd.kubectl.session import Session

_WHERE = "rdd ctl wait-condition"
_FLAGS = (
    Flag("namespace", "namespace of the object", short="n", default="default"),
    Flag("reason", "required reason of the condition"),
    Flag("since", "require a transition after this RFC 3339 time, or after startup"),
    Flag("timeout", "maximum time to wait; 0 means no limit", kind="duration", default="30s"),
)
_HELP = f"""\
Wait for a condition of an object

The object does not have to exist yet. CONDITION is a type, or TYPE=STATUS (default True).

Usage:
  {_WHERE} TYPE[.GROUP]/NAME CONDITION[=STATUS] [flags]

Flags:
""" + "\n".join(f"  --{f.name:<10}  {f.help}" for f in _FLAGS)


class Goal(NamedTuple):
    """The condition to wait for."""

    word: str  # TYPE[.GROUP]
    name: str
    condition: str
    status: str = "True"
    reason: str = ""
    since: tuple[int, int] | None = None  # seconds and nanoseconds

    def is_met(self, obj: Object) -> bool:
        for condition in (obj.get("status") or {}).get("conditions") or ():
            if condition.get("type") == self.condition:
                return (
                    condition.get("status") == self.status
                    and self.reason in ("", condition.get("reason"))
                    and self._is_recent(str(condition.get("lastTransitionTime") or ""))
                )
        return False

    def _is_recent(self, changed: str) -> bool:
        if self.since is None:
            return True
        from rdd.api import timestamps

        try:
            return timestamps.parse(changed) > self.since
        except ValueError:
            return False

    @property
    def text(self) -> str:
        return f"{self.condition}={self.status} of {self.word}/{self.name}"


def run(call: Call) -> int:
    """Wait for the condition. Raises CommandError, with exit code 4 on timeout."""
    parser = Parser((*GLOBAL, *_FLAGS), _WHERE)
    args = parser.parse(call.args[1:])
    flags = parser.result()
    if flags.truth("help"):
        call.out.write(_HELP + "\n")
        return 0
    goal = parse_goal(args, flags)
    seconds = flags.seconds("timeout")
    deadline = time.monotonic() + seconds if seconds > 0 else None
    from rdd.cli.framework.autostart import ensure_running

    ensure_running(call)
    credentials(call)
    session = _session(call, flags.text("namespace"))
    try:
        if flags.text("since") == "startup":
            goal = goal._replace(since=_startup(session))
        resource = session.resource(goal.word)
        with waiting(call, f"waiting for {goal.text}"):
            wait(session, resource, goal, deadline)
    except FAILURES as error:
        raise CommandError(str(error)) from error
    finally:
        session.close()
    call.log.info(f"condition {goal.text} is met")
    return 0


def parse_goal(args: list[str], flags: Flags) -> Goal:
    """Parse the arguments. Raises CommandError."""
    if len(args) != 2:
        raise CommandError(
            f"{_WHERE} accepts 2 arg(s), received {len(args)};"
            f" usage: {_WHERE} TYPE[.GROUP]/NAME CONDITION[=STATUS]"
        )
    target, condition = args
    word, slash, name = target.partition("/")
    if not slash or not word or not name or "/" in name:
        raise CommandError(f"invalid resource {quote(target)}: expected TYPE[.GROUP]/NAME")
    kind, equals, status = condition.partition("=")
    if not kind:
        raise CommandError(f"invalid condition {quote(condition)}: the type must not be empty")
    if equals and not status:
        raise CommandError(f"invalid condition {quote(condition)}: the status must not be empty")
    goal = Goal(word, name, kind, status or "True", flags.text("reason"))
    since = flags.text("since")
    return goal._replace(since=_time(since)) if since not in ("", "startup") else goal


def _time(text: str) -> tuple[int, int]:
    from rdd.api import timestamps

    try:
        return timestamps.parse(text)
    except ValueError:
        raise CommandError(
            f"invalid --since {quote(text)}: expected an RFC 3339 time or startup"
        ) from None


def _session(call: Call, namespace: str) -> "Session":
    from rdd.kubectl.flags import make_flags
    from rdd.kubectl.session import Session, Streams

    flags: dict[str, str | bool | int | float | list[str]] = {
        "kubeconfig": str(call.instance.config),
        "namespace": namespace,
        "request-timeout": "0",
        "v": 0,
    }
    streams = Streams(call.out, sys.stderr, sys.stdin)
    return Session(make_flags(flags), [], streams, call.environment.variables)


def _startup(session: "Session") -> tuple[int, int]:
    """Return the moment before the control plane started.

    Timestamps have a resolution of one second, and controllers can finish within the second
    of the start, which must count as after it.
    """
    from rdd.daemon.managers.discovery import CONFIG_MAP_PATH

    created = str(session.api.get(CONFIG_MAP_PATH)["metadata"]["creationTimestamp"])
    return _time(created)[0] - 1, 999_999_999


def wait(session: "Session", resource: "ApiResource", goal: Goal, deadline: float | None) -> None:
    """List and watch until the condition is met."""
    collection = resource.path(session.namespace if resource.namespaced else "")
    query = {"fieldSelector": f"metadata.name={goal.name}"}
    was_seen = False
    while True:
        listed = session.api.get(collection, query)
        items = listed.get("items") or []
        if any(goal.is_met(item) for item in items):
            return
        if was_seen and not items:
            raise _deleted(goal)
        was_seen = was_seen or bool(items)
        version = (listed.get("metadata") or {}).get("resourceVersion", "")
        events = session.api.watch(
            collection, {**query, "resourceVersion": version}, deadline=deadline
        )
        try:
            for event in events:
                if event["type"] == "DELETED":
                    raise _deleted(goal)
                was_seen = True
                if goal.is_met(event["object"]):
                    return
        except ApiError as error:
            if error.code != 410:  # expired resourceVersion: list again
                raise
        if deadline is not None and time.monotonic() >= deadline:
            raise CommandError(
                f"waiting for {goal.text}: context deadline exceeded", exit_code=TIMED_OUT
            )


def _deleted(goal: Goal) -> CommandError:
    return CommandError(f"{goal.word}/{goal.name} was deleted while waiting for {goal.text}")
