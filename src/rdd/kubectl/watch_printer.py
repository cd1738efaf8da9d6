# SPDX-License-Identifier: Apache-2.0
"""`get --watch`: existing objects, then every change."""

from rdd.api.mediatypes import JSON
from rdd.api.types import Object
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.printers import output
from rdd.kubectl.printers.tables import ACCEPT, TablePrinter
from rdd.kubectl.selection import Ref
from rdd.kubectl.session import Session
from rdd.kubectl.verbs.get import table_options, table_query


def watch(session: Session, refs: list[Ref], show: output.Printer | None) -> None:
    """Print a collection or an object and its changes until the server ends the watch."""
    if len({ref.resource for ref in refs}) > 1:
        raise KubectlError("you may only specify a single resource type")
    if len(refs) > 1:
        raise KubectlError("you may only watch a single resource or type of resource at a time")
    (ref,) = refs
    WatchPrinter(session, ref, show).run()


class WatchPrinter:
    """Lists, watches and prints."""

    def __init__(self, session: Session, ref: Ref, show: output.Printer | None) -> None:
        self._session = session
        self._ref = ref
        self._show = show
        self._table = TablePrinter(table_options(session)) if show is None else None
        self._accept = ACCEPT if show is None else JSON

    def run(self) -> None:
        session, ref, flags = self._session, self._ref, self._session.flags
        if ref.name:
            session.api.get(ref.path)  # a missing object is an error
        collection = ref._replace(name="").path
        query = {
            "labelSelector": flags.text("selector"),
            "fieldSelector": flags.text("field-selector"),
            **table_query(session),
        }
        if ref.name:
            query["fieldSelector"] = f"metadata.name={ref.name}"
        listed = session.api.get(collection, query, accept=self._accept)
        if not flags.truth("watch-only"):
            self._show_list(listed)
        query["resourceVersion"] = listed["metadata"].get("resourceVersion", "")
        deadline = session.deadline(session.request_timeout)
        events = session.api.watch(collection, query, accept=self._accept, deadline=deadline)
        for event in events:
            if event["type"] != "BOOKMARK":
                self._show_one(event["object"], event["type"])

    def _show_list(self, listed: Object) -> None:
        if self._table is not None:
            self._write(self._table.show(listed, event="ADDED"))
            return
        for item in listed.get("items") or ():
            item.setdefault("apiVersion", self._ref.resource.api_version)
            item.setdefault("kind", self._ref.resource.kind)
            self._show_one(item, "ADDED")

    def _show_one(self, obj: Object, event: str) -> None:
        if self._table is not None:
            self._write(self._table.show(obj, event=event))
        elif self._show is not None:
            if self._session.flags.truth("output-watch-events"):
                obj = {"object": obj, "type": event}
            self._write(self._show(obj))

    def _write(self, text: str) -> None:
        self._session.out.write(text)
        self._session.out.flush()
