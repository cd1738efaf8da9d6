# SPDX-License-Identifier: Apache-2.0
"""`wait --for=…`: wait until objects are created, deleted, or in a state.

    create                     the object exists; with a selector or --all, any does
    delete                     the object does not exist
    condition=NAME[=STATUS]    its condition has the status (True unless given)
    jsonpath='{…}'[=VALUE]     the field has the value (any value unless given)

Each object is listed and watched; the timeout applies to all of them together. A
timeout of 0 checks once, a negative one means a week.
"""

import time
from collections.abc import Callable

from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.deletion import timed_out, wait_until_gone
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.selection import (
    ALL,
    ALL_NAMESPACES,
    FIELD_SELECTOR,
    SELECTOR,
    Ref,
    for_each,
    objects,
    references,
    require_arguments,
)
from rdd.kubectl.session import Session

_WEEK_S = 7 * 24 * 3600
_RETRY_S = 0.2

Predicate = Callable[[Object], bool]

VERB = Verb(
    "wait",
    "(TYPE/NAME… | TYPE --all | TYPE -l LABELS | -f FILE) --for=…",
    "Wait for a condition of objects",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        SELECTOR,
        FIELD_SELECTOR,
        ALL,
        ALL_NAMESPACES,
        Flag("for", "create, delete, condition=NAME[=STATUS] or jsonpath='{…}'[=VALUE]"),
        Flag("timeout", "maximum time to wait; 0 checks once", "duration", default="30s"),
    ),
    unsupported=("local",),
)


def run(session: Session) -> None:
    goal = session.flags.text("for")
    lowered = goal.lower()
    is_gone, is_created = lowered == "delete", lowered == "create"
    test = None if is_gone or is_created else _test(goal)
    require_arguments(session)
    seconds = session.flags.seconds("timeout")
    deadline = time.monotonic() + (_WEEK_S if seconds < 0 else seconds)
    refs = references(session)
    if is_created:
        named = [ref for ref in refs if ref.name]
        for_each(named, lambda ref: _report(session, ref, _created(session, ref, deadline)))
        selected = [ref for ref in refs if not ref.name]
        if selected:
            found = _first_selected(session, selected, deadline)
            for_each(found, lambda ref: _report(session, ref, session.api.get(ref.path)))
        return
    found = objects(session, refs)
    if not found:
        if is_gone:
            return
        raise KubectlError("no matching resources found")
    if test is None:
        for_each(found, lambda ref: _gone(session, ref, deadline))
    else:
        is_met = test
        for_each(found, lambda ref: _report(session, ref, _met(session, ref, is_met, deadline)))


def _report(session: Session, ref: Ref, obj: Object) -> None:
    if session.flags.text("output"):
        session.out.write(output.printer(session.flags)(obj))
    else:
        session.print(f"{ref.printed} condition met")
    session.out.flush()


def _created(session: Session, ref: Ref, deadline: float) -> Object:
    """Poll until the object exists; a watch would need its namespace to exist."""
    while True:
        try:
            obj: Object = session.api.get(ref.path)
            return obj
        except ApiError as error:
            if error.reason != "NotFound":
                raise
        left = deadline - time.monotonic()
        if left <= 0:
            raise KubectlError("timed out waiting for the condition")
        time.sleep(min(left, _RETRY_S))


def _first_selected(session: Session, refs: list[Ref], deadline: float) -> list[Ref]:
    """Poll until a selection has an object; the kind itself may not be served yet."""
    while True:
        try:
            found = objects(session, refs)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
            found = []
        if found:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            raise KubectlError("timed out waiting for the condition")
        time.sleep(min(left, _RETRY_S))


def _gone(session: Session, ref: Ref, deadline: float) -> None:
    uid = str(((ref.object or {}).get("metadata") or {}).get("uid") or "")
    if not uid:
        try:
            uid = session.api.get(ref.path)["metadata"].get("uid", "")
        except ApiError as error:
            if error.reason == "NotFound":
                return
            raise
    wait_until_gone(session, ref, uid=uid, deadline=deadline)
    session.print(f"{ref.printed} condition met")


def _met(session: Session, ref: Ref, is_met: Predicate, deadline: float) -> Object:
    collection = ref._replace(name="").path
    query = {"fieldSelector": f"metadata.name={ref.name}"}
    obj: Object = session.api.get(ref.path)
    checks_once = session.flags.seconds("timeout") == 0
    while True:
        if is_met(obj):
            return obj
        if checks_once:
            raise KubectlError(f"condition not met for {ref.resource.plural}/{ref.name}")
        listed = session.api.get(collection, query)
        for item in listed.get("items") or ():
            item.setdefault("apiVersion", ref.resource.api_version)
            item.setdefault("kind", ref.resource.kind)
            obj = item
            if is_met(obj):
                return obj
        version = listed["metadata"].get("resourceVersion", "")
        watch = session.api.watch(
            collection, {**query, "resourceVersion": version}, deadline=deadline
        )
        try:
            for event in watch:
                if event["type"] in ("ADDED", "MODIFIED") and is_met(event["object"]):
                    met: Object = event["object"]
                    return met
        except ApiError as error:
            if error.code != 410:
                raise
        if time.monotonic() >= deadline:
            raise timed_out(ref)


def _test(goal: str) -> Predicate:
    if goal.startswith("condition="):
        return _condition(goal.removeprefix("condition="))
    if goal.startswith("jsonpath="):
        return _jsonpath(goal.removeprefix("jsonpath="))
    raise KubectlError(f'unrecognized condition: "{goal}"')


def _condition(text: str) -> Predicate:
    name, _, status = text.partition("=")
    name, status = name.lower(), (status or "true").lower()

    def is_met(obj: Object) -> bool:
        for condition in (obj.get("status") or {}).get("conditions") or ():
            if str(condition.get("type", "")).lower() != name:
                continue
            observed = condition.get("observedGeneration") or (obj.get("status") or {}).get(
                "observedGeneration"
            )
            generation = obj["metadata"].get("generation")
            if observed and generation and observed < generation:
                return False  # the condition is stale
            return str(condition.get("status", "")).lower() == status
        return False

    return is_met


def _jsonpath(text: str) -> Predicate:
    from rdd.api.jsonpath import JsonPathError
    from rdd.kubectl.printers.templates import Template, relaxed, text_of

    path, value, has_value = _split_jsonpath(text)
    template = Template(relaxed(path))

    def is_met(obj: Object) -> bool:
        try:
            found = template.values(obj)
        except JsonPathError:
            return False
        if not found:
            return False
        if len(found) > 1:
            raise KubectlError("given jsonpath expression matches more than one value")
        if isinstance(found[0], dict | list):
            raise KubectlError("jsonpath leads to a nested object or list which is not supported")
        return not has_value or text_of(found[0]).strip() == value

    return is_met


def _split_jsonpath(text: str) -> tuple[str, str, bool]:
    """Split `{.a}=b` into path and value; the path itself may contain `==`."""
    end = text.rfind("}")
    if end < 0:
        path, equals, value = text.partition("=")
        return path, value.strip("'\""), bool(equals)
    path, rest = text[: end + 1], text[end + 1 :]
    if rest and not rest.startswith("="):
        raise KubectlError(
            "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or"
            " --for=jsonpath='{.status.readyReplicas}'"
        )
    if rest == "=":
        raise KubectlError("jsonpath wait value cannot be empty")
    return path, rest[1:].strip("'\""), bool(rest)
