# SPDX-License-Identifier: Apache-2.0
"""`config`: show kubeconfig files, select and change contexts.

A change is written to the file of the entry, or to the first file for a new one.
The file is replaced atomically, with members in kubectl's order.
"""

from pathlib import Path
from typing import Any

from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.client import kubeconfig
from rdd.client.kubeconfig import Kubeconfig
from rdd.kubectl.errors import KubectlError, VerbatimError
from rdd.kubectl.flags import Verb
from rdd.kubectl.kubeconfig import locate, merge, read_file
from rdd.kubectl.printers import output
from rdd.kubectl.printers.tabwriter import TabWriter
from rdd.kubectl.session import Session

_CURRENT = Flag("current", "the current context", "bool")
_HEADERS = Flag("no-headers", "print no header", "bool")

VERBS = {
    "current-context": Verb("current-context", "", "Show the name of the current context"),
    "delete-context": Verb("delete-context", "NAME", "Remove a context"),
    "get-clusters": Verb("get-clusters", "", "List the clusters"),
    "get-contexts": Verb(
        "get-contexts", "[NAME…]", "List the contexts",
        flags=(_HEADERS, Flag("output", "name: print only names", short="o")),
    ),
    "get-users": Verb("get-users", "", "List the users"),
    "rename-context": Verb("rename-context", "OLD NEW", "Rename a context"),
    "set-context": Verb(
        "set-context", "[NAME | --current] [--cluster=…] [--user=…] [--namespace=…]",
        "Change or add a context", flags=(_CURRENT,),
    ),
    "use-context": Verb("use-context", "NAME", "Select the current context"),
    "view": Verb(
        "view", "[--minify] [--flatten] [--raw] [-o FORMAT]", "Show the merged configuration",
        flags=(
            *output.FLAGS,
            Flag("flatten", "embed the content of certificate files", "bool"),
            Flag("merge", "merge all files", "bool", default="true"),
            Flag("minify", "only the entries of the current context", "bool"),
            Flag("raw", "show keys and tokens", "bool"),
        ),
    ),
}  # fmt: skip
ALIASES = {"use": "use-context"}
UNSUPPORTED = (
    "delete-cluster", "delete-user", "set", "set-cluster", "set-credentials", "unset",
)  # fmt: skip


def run(session: Session, name: str) -> None:
    if name:
        _COMMANDS[name](session, _load(session))


def _load(session: Session) -> Kubeconfig:
    explicit = session.flags.text("kubeconfig")
    if explicit:  # a missing file is empty: a change creates it
        return merge([Path(explicit)])
    return locate(session.flags, session.variables)


def _current_context(session: Session, config: Kubeconfig) -> None:
    if not config.current:
        raise KubectlError("current-context is not set")
    session.print(config.current)


def _get_clusters(session: Session, config: Kubeconfig) -> None:
    session.print("NAME", *sorted(config.entries["clusters"]))


def _get_users(session: Session, config: Kubeconfig) -> None:
    session.print("NAME", *sorted(config.entries["users"]))


def _get_contexts(session: Session, config: Kubeconfig) -> None:
    flags, contexts = session.flags, config.entries["contexts"]
    if flags.text("output") not in ("", "name"):
        raise KubectlError(f"output must be one of '' or 'name': {flags.text('output')}")
    names = session.args or sorted(contexts)
    if flags.text("output") == "name":
        session.print(*(name for name in names if name in contexts))
    else:
        writer = TabWriter()
        if not flags.truth("no-headers"):
            writer.line("CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE")
        for name in names:
            if name in contexts:
                context = contexts[name]
                writer.line(
                    "*" if name == config.current else "",
                    name,
                    *(str(context.get(key) or "") for key in ("cluster", "user", "namespace")),
                )
        session.out.write(writer.flush())
    for name in names:
        if name not in contexts:
            raise KubectlError(f"context {name} not found")


def _use_context(session: Session, config: Kubeconfig) -> None:
    name = _one_argument(session, "use-context")
    if name not in config.entries["contexts"]:
        raise KubectlError(f'no context exists with the name: "{name}"')
    path = config.current_origin or config.paths[0]
    _edit(path, lambda document: document.update({"current-context": name}))
    session.print(f'Switched to context "{name}".')


def _set_context(session: Session, config: Kubeconfig) -> None:
    flags = session.flags
    if flags.truth("current"):
        if session.args:
            raise KubectlError("you cannot specify both a context name and --current")
        if not config.current:
            raise KubectlError("no current context is set")
        name = config.current
    else:
        name = _one_argument(session, "set-context")
    exists = name in config.entries["contexts"]
    path = config.origins.get(("contexts", name)) or _first(config.paths)
    changes = {
        key: flags.text(key) for key in ("cluster", "user", "namespace") if key in flags.given
    }

    def change(document: Object) -> None:
        entries = document.setdefault("contexts", []) or []
        found = next((e for e in entries if e.get("name") == name), None)
        if found is None:
            found = {"name": name, "context": {"cluster": "", "user": ""}}
            entries.append(found)
        found["context"] = {**(found.get("context") or {}), **changes}
        document["contexts"] = entries

    _edit(path, change)
    session.print(f'Context "{name}" {"modified" if exists else "created"}.')


def _rename_context(session: Session, config: Kubeconfig) -> None:
    if len(session.args) != 2:
        raise _usage("rename-context", "unexpected args: " + str(session.args))
    old, new = session.args
    contexts = config.entries["contexts"]
    if old not in contexts:
        raise KubectlError(f'cannot rename the context "{old}", it\'s not in {config.paths[0]}')
    if new in contexts:
        raise KubectlError(
            f'cannot rename the context "{old}", the context "{new}" already exists in'
            f" {config.origins['contexts', new]}"
        )

    def change(document: Object) -> None:
        for entry in document.get("contexts") or ():
            if entry.get("name") == old:
                entry["name"] = new
        if document.get("current-context") == old:
            document["current-context"] = new

    _edit(config.origins["contexts", old], change)
    session.print(f'Context "{old}" renamed to "{new}".')


def _delete_context(session: Session, config: Kubeconfig) -> None:
    name = _one_argument(session, "delete-context")
    path = config.origins.get(("contexts", name))
    if path is None:
        raise KubectlError(f"cannot delete context {name}, not in {_first(config.paths)}")
    if name == config.current:
        session.warn(
            'warning: this removed your active context, use "kubectl config use-context"'
            " to select a different one"
        )

    def change(document: Object) -> None:
        entries = document.get("contexts") or []
        document["contexts"] = [e for e in entries if e.get("name") != name]

    _edit(path, change)
    session.print(f"deleted context {name} from {path}")


def _view(session: Session, config: Kubeconfig) -> None:
    flags = session.flags
    document = config.document()
    if flags.truth("minify"):
        document = _minified(session, config, document)
    if flags.truth("flatten"):
        document = _flattened(document)
    elif not flags.truth("raw"):
        document = _redacted(document)
    show = output.printer(flags, form=flags.text("output") or "yaml")
    session.out.write(show(document))


def _minified(session: Session, config: Kubeconfig, document: Object) -> Object:
    name = session.flags.text("context") or config.current
    if not name:
        raise KubectlError("current-context must exist in order to minify")
    if name not in config.entries["contexts"]:
        raise KubectlError(f"cannot locate context {name}")
    context = config.entries["contexts"][name]
    wanted = {
        "contexts": name,
        "clusters": session.flags.text("cluster") or context.get("cluster"),
        "users": session.flags.text("user") or context.get("user"),
    }
    kept = {
        member: [e for e in document[member] or () if e["name"] == chosen] or None
        for member, chosen in wanted.items()
    }
    return {**document, **kept, "current-context": name}


def _flattened(document: Object) -> Object:
    import base64

    def inner(value: dict[str, Any]) -> dict[str, Any]:
        result = dict(value)
        for key in ("certificate-authority", "client-certificate", "client-key"):
            if result.get(key):
                try:
                    content = Path(str(result.pop(key))).read_bytes()
                except OSError as error:
                    raise KubectlError(f"unable to read {value[key]}: {error.strerror}") from None
                result[f"{key}-data"] = base64.b64encode(content).decode()
        return result

    return _mapped(document, inner)


def _redacted(document: Object) -> Object:
    def inner(value: dict[str, Any]) -> dict[str, Any]:
        hidden = {"token": "REDACTED", "password": "REDACTED"}
        hidden |= {
            f"{key}-data": "DATA+OMITTED"
            for key in ("certificate-authority", "client-certificate", "client-key")
        }
        return {key: hidden.get(key, v) if v else v for key, v in value.items()}

    return _mapped(document, inner)


def _mapped(document: Object, change: Any) -> Object:
    result = dict(document)
    for member, key in (("clusters", "cluster"), ("users", "user")):
        if result.get(member):
            result[member] = [{**e, key: change(e[key])} for e in result[member]]
    return result


def _one_argument(session: Session, command: str) -> str:
    if len(session.args) != 1:
        raise _usage(command, f"Unexpected args: [{' '.join(session.args)}]")
    return session.args[0]


def _usage(command: str, text: str) -> KubectlError:
    return VerbatimError(f"error: {text}\nSee 'kubectl config {command} -h' for help and examples")


def _first(paths: list[Path]) -> Path:
    """Return the file for new entries: the first that exists, else the last of the list."""
    if not paths:
        raise KubectlError("no kubeconfig file: HOME and KUBECONFIG are not set")
    return next((p for p in paths if p.exists()), paths[-1])


def _edit(path: Path, change: Any) -> None:
    """Apply a change to a file and replace it atomically."""
    document = read_file(path)
    document = {"apiVersion": "v1", "kind": "Config", "preferences": {}, **document}
    document.setdefault("clusters", None)
    document.setdefault("contexts", None)
    document.setdefault("current-context", "")
    document.setdefault("users", None)
    change(document)
    contexts = document.get("contexts")
    if contexts:
        document["contexts"] = sorted(contexts, key=lambda e: str(e.get("name")))
    for entry in document.get("clusters") or ():
        cluster = entry.get("cluster") or {}
        for key in ("insecure-skip-tls-verify", "disable-compression"):
            if key in cluster:
                cluster[key] = str(cluster[key]).lower() == "true"
    path.parent.mkdir(parents=True, exist_ok=True)
    kubeconfig.write(path, output.yaml_text(document))


_COMMANDS = {
    "current-context": _current_context,
    "delete-context": _delete_context,
    "get-clusters": _get_clusters,
    "get-contexts": _get_contexts,
    "get-users": _get_users,
    "rename-context": _rename_context,
    "set-context": _set_context,
    "use-context": _use_context,
    "view": _view,
}
