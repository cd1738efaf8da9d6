# SPDX-License-Identifier: Apache-2.0
"""`auth can-i` and `auth whoami`: permissions and identity of the current user."""

from collections.abc import Iterator

from rdd.api import names
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl.errors import ExitWithCode, NoSuchResource, VerbatimError
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.printers.tabwriter import TabWriter
from rdd.kubectl.selection import ALL_NAMESPACES
from rdd.kubectl.session import Session

_REVIEWS = f"/apis/{names.AUTHORIZATION_GROUP}/v1"

VERBS = {
    "can-i": Verb(
        "can-i",
        "VERB (TYPE | TYPE/NAME | PATH) | --list",
        "Check whether an action is allowed",
        flags=(
            ALL_NAMESPACES,
            Flag("list", "list all allowed actions", "bool"),
            Flag("no-headers", "print no header for --list", "bool"),
            Flag("quiet", "print nothing; the exit code is the result", "bool", short="q"),
            Flag("subresource", "subresource, such as status"),
        ),
    ),
    "whoami": Verb("whoami", "[-o FORMAT]", "Show the current user", flags=output.FLAGS),
}
UNSUPPORTED = ("reconcile",)


def run(session: Session, name: str) -> None:
    if name == "whoami":
        _who_am_i(session)
    elif name == "can-i" and session.flags.truth("list"):
        _list(session)
    elif name == "can-i":
        _can_i(session)


def _who_am_i(session: Session) -> None:
    review: Object = session.api.request(
        "POST",
        f"/apis/{names.AUTHENTICATION_GROUP}/v1/selfsubjectreviews",
        body={"apiVersion": f"{names.AUTHENTICATION_GROUP}/v1", "kind": "SelfSubjectReview"},
    )
    if session.flags.text("output"):
        session.out.write(output.printer(session.flags)(review))
        return
    user = (review.get("status") or {}).get("userInfo") or {}
    writer = TabWriter()
    writer.line("ATTRIBUTE", "VALUE")
    for key, title in (("username", "Username"), ("uid", "UID")):
        if user.get(key):
            writer.line(title, user[key])
    if user.get("groups"):
        writer.line("Groups", f"[{' '.join(user['groups'])}]")
    for key, values in sorted((user.get("extra") or {}).items()):
        writer.line(f"Extra: {key}", f"[{' '.join(values)}]")
    session.out.write(writer.flush())


def _can_i(session: Session) -> None:
    if len(session.args) not in (2, 3):
        raise VerbatimError(
            "error: you must specify two arguments: verb resource or verb resource/resourceName.\n"
            "See 'kubectl auth can-i -h' for help and examples."
        )
    verb, what = session.args[:2]
    review: Object = {
        "apiVersion": f"{names.AUTHORIZATION_GROUP}/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": _attributes(session, verb, what),
    }
    reply: Object = session.api.request("POST", f"{_REVIEWS}/selfsubjectaccessreviews", body=review)
    status = reply.get("status") or {}
    is_allowed = bool(status.get("allowed"))
    if not session.flags.truth("quiet"):
        text = "yes" if is_allowed else "no"
        if not is_allowed and status.get("reason"):
            text += f" - {status['reason']}"
        if status.get("evaluationError"):
            text += f" - {status['evaluationError']}"
        session.print(text)
    if not is_allowed:
        raise ExitWithCode(1)


def _attributes(session: Session, verb: str, what: str) -> Object:
    if what.startswith("/"):
        return {"nonResourceAttributes": {"verb": verb, "path": what}}
    word, _, name = what.partition("/")
    if len(session.args) == 3:
        name = session.args[2]
    is_everywhere = session.flags.truth("all-namespaces")
    attributes = {
        "verb": verb,
        "namespace": "" if is_everywhere else session.namespace,
        "name": name,
        "subresource": session.flags.text("subresource"),
    }
    if word == "*":
        return {"resourceAttributes": {**attributes, "group": "*", "resource": "*"}}
    try:
        resource = session.resource(word)
    except NoSuchResource:
        plural, _, group = word.partition(".")
        if not session.flags.truth("quiet"):
            session.warn(f"Warning: the server doesn't have a resource type '{plural}'\n")
        return {"resourceAttributes": {**attributes, "group": group, "resource": plural}}
    if not resource.namespaced and not is_everywhere:
        attributes["namespace"] = ""
        if not session.flags.truth("quiet"):
            group_text = f" in group '{resource.group}'" if resource.group else ""
            session.warn(
                f"Warning: resource '{resource.plural}' is not namespace scoped{group_text}\n"
            )
    return {
        "resourceAttributes": {
            **attributes,
            "group": resource.group,
            "version": "*",
            "resource": resource.plural,
        }
    }


def _list(session: Session) -> None:
    body = {
        "apiVersion": f"{names.AUTHORIZATION_GROUP}/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": session.namespace},
    }
    reply: Object = session.api.request("POST", f"{_REVIEWS}/selfsubjectrulesreviews", body=body)
    status = reply.get("status") or {}
    writer = TabWriter()
    if not session.flags.truth("no-headers"):
        writer.line("Resources", "Non-Resource URLs", "Resource Names", "Verbs")
    for _, line in sorted(_rule_lines(status)):
        writer.line(*line)
    session.out.write(writer.flush())
    if status.get("incomplete"):
        session.warn("warning: the list may be incomplete: " + str(status.get("evaluationError")))


def _rule_lines(status: Object) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the lines of `--list`, each behind its sort key."""
    for rule in status.get("resourceRules") or ():
        verbs, names = _bracketed(rule.get("verbs")), _bracketed(rule.get("resourceNames"))
        for resource in rule.get("resources") or ():
            plural, slash, subresource = resource.partition("/")
            for group in rule.get("apiGroups") or [""]:
                name = f"{plural}.{group}" if group else plural
                line = (f"{name}{slash}{subresource}", "[]", names, verbs)
                yield (verbs, f"[{group}]", f"[{resource}]", names), line
    for rule in status.get("nonResourceRules") or ():
        verbs = _bracketed(rule.get("verbs"))
        for url in rule.get("nonResourceURLs") or ():
            yield (verbs, "[]", "[]", "[]", f"[{url}]"), ("", f"[{url}]", "[]", verbs)


def _bracketed(values: list[str] | None) -> str:
    return f"[{' '.join(values or ())}]"
