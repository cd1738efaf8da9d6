# SPDX-License-Identifier: Apache-2.0
"""The built-in client: from the command line to the exit code.

`run_client` finds the verb, parses its flags, runs it, and prints a failure to
stderr in kubectl's wording. A verb's module is imported when it is used.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from rdd.base.pflag import Flag
from rdd.kubectl.errors import FAILURES, KubectlError, VerbatimError, message_of, unsupported
from rdd.kubectl.flags import GLOBAL, Verb, VerbParser, split_verb
from rdd.kubectl.session import Session, Streams

VERBS: dict[str, str] = {
    "annotate": "Change annotations of objects",
    "api-resources": "List the resources of the server",
    "api-versions": "List the API versions of the server",
    "apply": "Create or update objects from a file",
    "auth": "Check permissions and identity",
    "cluster-info": "Show the address of the server",
    "config": "Show and change kubeconfig files",
    "create": "Create objects from a file or from arguments",
    "delete": "Delete objects",
    "describe": "Show objects in detail, with their events",
    "diff": "Show what apply would change",
    "edit": "Change objects in an editor",
    "events": "List events",
    "explain": "Show the fields of a resource",
    "expose": "Create a Service for a workload",
    "get": "Show objects",
    "label": "Change labels of objects",
    "patch": "Change fields of an object",
    "proxy": "Serve the API on a local port without authentication",
    "replace": "Replace objects with those of a file",
    "rollout": "Watch or restart the rollout of a workload",
    "scale": "Change the number of replicas",
    "version": "Show the versions of client and server",
    "wait": "Wait for a condition of objects",
}
_ALIASES = {"clusterinfo": "cluster-info"}
# Commands of kubectl that the built-in client lacks.
_UNSUPPORTED = frozenset((
    "alpha", "attach", "autoscale", "certificate", "completion", "cordon", "cp", "debug", "drain",
    "exec", "kuberc", "kustomize", "logs", "options", "plugin", "port-forward", "run", "set",
    "taint", "top", "uncordon",
))  # fmt: skip


def run_client(words: Sequence[str], variables: Mapping[str, str], streams: Streams) -> int:
    """Run the built-in client and return the exit code."""
    try:
        _run(list(words), variables, streams)
        return 0
    except FAILURES as failure:
        streams.out.flush()
        if text := message_of(failure):
            streams.err.write(f"{text}\n")
        return getattr(failure, "exit_code", 1)


def _run(words: list[str], variables: Mapping[str, str], streams: Streams) -> None:
    name, rest = split_verb(words)
    if name == "help":
        name, rest = split_verb([*rest, "--help"])
    if not name:
        VerbParser(Verb("", "", ""), path="kubectl").parse(rest)
        streams.out.write(_overview())
        return
    name = _ALIASES.get(name, name)
    if name not in VERBS:
        if name in _UNSUPPORTED:
            raise unsupported(f'command "{name}"')
        raise VerbatimError(f'error: unknown command "{name}" for "kubectl"')
    module = importlib.import_module(f"rdd.kubectl.verbs.{name.replace('-', '_')}")
    path, verb, arguments, rest = _sub_verb(module, name, rest)
    parser = VerbParser(verb, path=path)
    args = parser.parse(rest)
    flags = parser.result()
    if flags.truth("help"):
        streams.out.write(_help(path, verb, module if not arguments else None))
        return
    session = Session(flags, args, streams, variables)
    session.dash = parser.dash
    try:
        module.run(session, *arguments)
    finally:
        session.close()
    if flags.truth("warnings-as-errors") and "api" in vars(session) and session.api.warnings:
        count = len(session.api.warnings)
        raise KubectlError(f"{count} warning{'s' if count > 1 else ''} received")


def _sub_verb(
    module: ModuleType, name: str, rest: list[str]
) -> tuple[str, Verb, tuple[Any, ...], list[str]]:
    """Return path, verb, arguments of `run` and remaining words of a possible sub-command."""
    path = f"kubectl {name}"
    members: dict[str, Verb] | None = getattr(module, "VERBS", None)
    if members is None:
        return path, module.VERB, (), rest
    own: Verb | None = getattr(module, "VERB", None)
    sub, others = split_verb(rest)
    aliases: dict[str, str] = getattr(module, "ALIASES", {})
    sub = aliases.get(sub, sub)
    if sub in members:
        if nested := getattr(module, "NESTED", {}).get(sub):
            inner, remaining = split_verb(others)
            if inner not in nested:
                names = ", ".join(nested)
                raise unsupported(f'command "{name} {sub} {inner}" (supported: {names})')
            return f"{path} {sub} {inner}", nested[inner], (f"{sub} {inner}",), remaining
        return f"{path} {sub}", members[sub], (sub,), others
    if own is not None:
        if sub in getattr(module, "UNSUPPORTED", ()):
            raise unsupported(f'command "{name} {sub}"')
        return path, own, ("",), rest
    if not sub:
        return path, Verb(name, "COMMAND", VERBS[name]), ("",), rest
    if sub in getattr(module, "UNSUPPORTED", ()):
        raise unsupported(f'command "{name} {sub}"')
    raise VerbatimError(
        f'error: unknown command "{sub}" for "{path}"\nSee \'{path} -h\' for help and examples'
    )


def _overview() -> str:
    rows = [(name, summary) for name, summary in sorted(VERBS.items())]
    return (
        "The built-in client for Kubernetes API servers.\n\n"
        "Usage:\n  kubectl COMMAND [flags]\n\nCommands:\n"
        + _columns(rows)
        + "\n\nFlags of every command:\n"
        + _columns([_flag_row(flag) for flag in GLOBAL])
        + "\n"
    )


def _help(path: str, verb: Verb, module: ModuleType | None) -> str:
    parts = [verb.summary, f"Usage:\n  {path} {verb.usage}".rstrip()]
    members: dict[str, Verb] = getattr(module, "VERBS", {})
    if members:
        parts.append("Commands:\n" + _columns([(n, v.summary) for n, v in members.items()]))
    if verb.flags:
        rows = sorted(_flag_row(flag) for flag in verb.flags)
        parts.append("Flags:\n" + _columns(rows))
    parts.append("Flags of every command: kubectl --help")
    return "\n\n".join(parts) + "\n"


def _flag_row(flag: Flag) -> tuple[str, str]:
    name = f"-{flag.short}, --{flag.name}" if flag.short and flag.short != flag.name else ""
    name = name or f"    --{flag.name}"
    if flag.kind != "bool":
        name += f"[={flag.kind}]" if flag.implied else f" {flag.kind}"
    return name, f"{flag.help} (default {flag.default})" if flag.default else flag.help


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"  {left:<{width}}  {right}" for left, right in rows)
