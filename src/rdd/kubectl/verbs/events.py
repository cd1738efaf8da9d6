# SPDX-License-Identifier: Apache-2.0
"""`events`: list events, sorted by the time they were last seen."""

from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.printers.tables import ago
from rdd.kubectl.printers.tabwriter import TabWriter
from rdd.kubectl.selection import ALL_NAMESPACES, Ref, list_objects
from rdd.kubectl.session import Session

_TYPES = ("Normal", "Warning")

VERB = Verb(
    "events",
    "[--for TYPE/NAME] [--types=Normal,Warning]",
    "List events",
    flags=(
        *output.FLAGS,
        ALL_NAMESPACES,
        Flag("for", "only events of this object, TYPE/NAME"),
        Flag("no-headers", "print no header", "bool"),
        Flag("types", "only events of these types", "list"),
    ),
    unsupported=("chunk-size", "watch"),
)


def run(session: Session) -> None:
    flags = session.flags
    if session.args:
        raise KubectlError(f"unexpected arguments: [{' '.join(session.args)}]")
    for kind in flags.texts("types"):
        if kind.capitalize() not in _TYPES:
            raise KubectlError("valid --types are Normal or Warning")
    is_everywhere = flags.truth("all-namespaces")
    resource = session.resource("events")
    ref = Ref(resource, "" if is_everywhere else session.namespace)
    query = _query(session)
    items: list[Object] = list_objects(session, ref, **query).get("items") or []
    wanted = [kind.capitalize() for kind in flags.texts("types")]
    found = [e for e in items if not wanted or e.get("type") in wanted]
    found.sort(key=last_seen)
    if flags.text("output"):
        shown = {"apiVersion": "v1", "kind": "EventList", "metadata": {}, "items": found}
        session.out.write(output.printer(flags)(shown))
    elif not found:
        where = "" if is_everywhere else f" in {session.namespace} namespace"
        session.warn(f"No events found{where}.")
    else:
        session.out.write(_table(session, found, is_everywhere))


def _query(session: Session) -> dict[str, str]:
    text = session.flags.text("for")
    if not text:
        return {}
    word, slash, name = text.partition("/")
    if not slash or not name:
        raise KubectlError("--for must be in resource/name form")
    resource = session.resource(word)
    fields = f"involvedObject.kind={resource.kind},involvedObject.name={name}"
    return {"fieldSelector": f"{fields},involvedObject.apiVersion={resource.api_version}"}


def _table(session: Session, events: list[Object], with_namespace: bool) -> str:
    writer = TabWriter()
    if not session.flags.truth("no-headers"):
        header = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        writer.line(*(["NAMESPACE"] if with_namespace else []), *header)
    for event in events:
        involved = event.get("involvedObject") or {}
        cells = [
            interval(event),
            event.get("type", ""),
            event.get("reason", ""),
            f"{involved.get('kind', '')}/{involved.get('name', '')}",
            str(event.get("message", "")).strip(),
        ]
        namespace = [(event.get("metadata") or {}).get("namespace", "")] if with_namespace else []
        writer.line(*namespace, *cells)
    return writer.flush()


def last_seen(event: Object) -> str:
    """Return when an event was last seen, as a sortable text."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or ""
    )


def interval(event: Object) -> str:
    """Return how long ago an event was last seen, and how often since the first time."""
    series = event.get("series") or {}
    count = int(series.get("count") or event.get("count") or 1)
    first = str(event.get("firstTimestamp") or event.get("eventTime") or "")
    last = ago(last_seen(event))
    return f"{last} (x{count} over {ago(first)})" if count > 1 else last
