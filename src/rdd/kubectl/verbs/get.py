# SPDX-License-Identifier: Apache-2.0
"""`get`: show objects, as tables rendered by the server or in the format of `-o`."""

from rdd.api.errors import ApiError
from rdd.api.mediatypes import JSON
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.client.resources import ApiResource
from rdd.kubectl import manifests
from rdd.kubectl.errors import Failure, VerbatimError, raise_all
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.printers.tables import ACCEPT, TableOptions, TablePrinter, as_table
from rdd.kubectl.selection import (
    ALL_NAMESPACES,
    FIELD_SELECTOR,
    SELECTOR,
    Ref,
    list_objects,
    printed_kind,
    references,
)
from rdd.kubectl.session import Session

VERB = Verb(
    "get",
    "TYPE[,TYPE…] [NAME…] | TYPE/NAME… | -f FILE | --raw PATH",
    "Show objects",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        SELECTOR,
        FIELD_SELECTOR,
        ALL_NAMESPACES,
        Flag("chunk-size", "maximum number of objects per request", "int", default="500"),
        Flag("ignore-not-found", "ignore missing objects", "bool"),
        Flag("label-columns", "labels to show as columns", "list", short="L"),
        Flag("no-headers", "print no table header", "bool"),
        Flag("output-watch-events", "print the types of watch events", "bool"),
        Flag("raw", "request this path and print the raw reply"),
        Flag("server-print", "let the server render tables", "bool", default="true"),
        Flag("show-kind", "prefix names with the kind", "bool"),
        Flag("show-labels", "show labels in the last column", "bool"),
        Flag("sort-by", "JSONPath of the field to sort by"),
        Flag("subresource", "subresource to show: status, scale"),
        Flag("watch", "watch for changes", "bool", short="w"),
        Flag("watch-only", "watch for changes without listing first", "bool"),
    ),
    unsupported=manifests.UNSUPPORTED,
)


def run(session: Session) -> None:
    flags = session.flags
    if raw := flags.text("raw"):
        session.out.write(session.api.raw("GET", raw).decode(errors="replace"))
        return
    if not session.args and not flags.texts("filename"):
        raise VerbatimError(
            'You must specify the type of resource to get. Use "kubectl api-resources" for a'
            " complete list of supported resources.\n\n"
            "error: Required resource not specified.\n"
            'Use "kubectl explain <resource>" for a detailed description of that resource'
            " (e.g. kubectl explain pods).\nSee 'kubectl get -h' for help and examples"
        )
    shows_table = flags.text("output") in ("", "wide")
    show = None if shows_table else output.printer(flags, also="wide")
    refs = references(session)
    if flags.truth("watch") or flags.truth("watch-only"):
        from rdd.kubectl.watch_printer import watch

        watch(session, refs, show)
    elif show is None:
        _show_tables(session, refs)
    else:
        _show_objects(session, refs, show)


def table_options(session: Session, *, kind: str = "") -> TableOptions:
    """Return the table options that the flags of `get` select."""
    flags = session.flags
    return TableOptions(
        is_wide=flags.text("output") == "wide",
        no_headers=flags.truth("no-headers"),
        with_namespace=flags.truth("all-namespaces"),
        show_labels=flags.truth("show-labels"),
        label_columns=tuple(flags.texts("label-columns")),
        kind=kind,
        with_event=flags.truth("output-watch-events"),
    )


def table_query(session: Session) -> dict[str, str]:
    """Return query parameters of a table: sorting by a field needs whole objects."""
    return {"includeObject": "Object"} if session.flags.text("sort-by") else {}


def _show_tables(session: Session, refs: list[Ref]) -> None:
    errors: list[Failure] = []
    tables: list[tuple[Ref, Object]] = []
    for ref in refs:
        try:
            tables.append((ref, _table(session, ref)))
        except ApiError as error:
            _keep(session, error, errors)
    shows_kind = session.flags.truth("show-kind") or len({r.resource for r, _ in tables}) > 1
    text = ""
    has_namespace = False
    for resource, table in _joined(tables):
        options = table_options(session, kind=printed_kind(resource) if shows_kind else "")
        # The namespace column appears with the first namespaced resource.
        has_namespace = has_namespace or resource.namespaced
        options = options._replace(with_namespace=options.with_namespace and has_namespace)
        part = TablePrinter(options).show(_sorted_table(session, table))
        text += "\n" if text and part and not options.no_headers else ""
        text += part
    session.out.write(text)
    if not text and not errors:
        _report_nothing_found(session, refs)
    raise_all(errors)


def _joined(tables: list[tuple[Ref, Object]]) -> list[tuple[ApiResource, Object]]:
    """Join neighbouring tables of the same resource."""
    joined: list[tuple[ApiResource, Object]] = []
    for ref, table in tables:
        table = as_table(table)
        if joined and joined[-1][0] == ref.resource:
            whole = joined[-1][1]
            rows = [*(whole.get("rows") or ()), *(table.get("rows") or ())]
            joined[-1] = (ref.resource, {**whole, "rows": rows})
        else:
            joined.append((ref.resource, table))
    return joined


def _table(session: Session, ref: Ref) -> Object:
    query = table_query(session)
    accept = ACCEPT if session.flags.truth("server-print") else JSON
    if ref.name:
        table: Object = session.api.get(_path(session, ref), query, accept=accept)
        return table
    return list_objects(session, ref, accept=accept, **query)


def _path(session: Session, ref: Ref) -> str:
    return ref.sub(session.flags.text("subresource"))


def _show_objects(session: Session, refs: list[Ref], show: output.Printer) -> None:
    errors: list[Failure] = []
    found: list[Object] = []
    for ref in refs:
        try:
            if ref.name:
                found.append(session.api.get(_path(session, ref)))
            else:
                found += list_objects(session, ref).get("items") or []
        except ApiError as error:
            _keep(session, error, errors)
    is_single = len(refs) == 1 and bool(refs[0].name)
    if is_single:
        session.out.write("".join(map(show, found)))
    elif not errors or found:
        from rdd.kubectl.printers.sort import sort_objects

        if path := session.flags.text("sort-by"):
            found = sort_objects(found, path)
        shown = show(
            {
                "apiVersion": "v1",
                "kind": "List",
                "metadata": {"resourceVersion": ""},
                "items": found,
            }
        )
        session.out.write(shown)
    raise_all(errors)


def _sorted_table(session: Session, table: Object) -> Object:
    path = session.flags.text("sort-by")
    if not path or not table.get("rows"):
        return table
    from rdd.kubectl.printers.sort import sort_rows

    return {**table, "rows": sort_rows(table["rows"], path)}


def _keep(session: Session, error: ApiError, errors: list[Failure]) -> None:
    if not (error.reason == "NotFound" and session.flags.truth("ignore-not-found")):
        errors.append(error)


def _report_nothing_found(session: Session, refs: list[Ref]) -> None:
    if session.flags.truth("ignore-not-found") or any(ref.name for ref in refs):
        return
    is_namespaced = any(ref.resource.namespaced for ref in refs)
    where = ""
    if is_namespaced and not session.flags.truth("all-namespaces"):
        where = f" in {session.namespace} namespace."
    session.warn(f"No resources found{where}")
