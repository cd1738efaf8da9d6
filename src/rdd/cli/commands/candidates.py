# SPDX-License-Identifier: Apache-2.0
"""Candidates for completion that depend on the state: properties, containers, contexts, …

Nothing is started or created, and a control plane that does not respond within a second
has no candidates: completion must never block a shell.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

Candidate = tuple[str, str]  # text, description

_TIMEOUT_S = 1.0
_KUBECTL_TIMEOUT_S = 5.0


class Words(NamedTuple):
    """A command line: the arguments before the incomplete one, and that one."""

    before: tuple[str, ...]
    current: str


def offered(source: str, call: Call, words: Words) -> Iterable[Candidate]:
    """Return the candidates of a source; none if they cannot be determined."""
    try:
        return list(_SOURCES[source](call, words))
    except (CommandError, OSError):
        return ()


def instances(call: Call, words: Words) -> Iterator[Candidate]:
    """Yield the names of all instances."""
    from rdd.daemon.service.instances import existing

    here = call.instance
    for found in existing(here.home, here.system):
        yield found.suffix, "instance"


def _trash(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.trash.entries import content, trash

    for entry in trash(call).entries():
        if entry.id not in words.before:
            yield entry.id, content(entry)


def _properties(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.app.properties import leaves

    if not words.before:
        for path, schema in sorted(leaves(_schema(call))):
            yield path, _sentence(schema)


def _assignments(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.app.properties import leaves

    path, equals, _ = words.current.partition("=")
    for name, schema in sorted(leaves(_schema(call))):
        if not equals:
            yield f"{name}=", _sentence(schema)
        elif name == path:
            yield from ((f"{name}={value}", "") for value in _values(name, schema))


def _values(name: str, schema: Any) -> Iterable[str]:
    if schema.get("type") == "boolean":
        return ("true", "false")
    if name == "containerEngine.version":
        from rdd.toolbox.catalogue import Catalogue

        return Catalogue.shipped().tool("engine").versions
    if name == "kubernetes.version":
        from rdd.controllers.app.k3s_versions_table import CHANNELS, VERSIONS

        return (*CHANNELS, *VERSIONS)
    return [value for value in schema.get("enum") or () if isinstance(value, str)]


def _schema(call: Call) -> Object:
    """Return the schema of this version: asking the daemon would cost more than it adds."""
    from rdd.cli.commands.app.properties import spec_schema
    from rdd.kinds.app import App
    from rdd.kinds.crd import definition_of

    return dict(spec_schema(definition_of(App)))


def _sentence(schema: Any) -> str:
    return " ".join(str(schema.get("description", "")).split()).partition(". ")[0]


def _listed(call: Call, path: str) -> list[Object]:
    with connected(call, start=False, timeout_s=_TIMEOUT_S) as connection:
        found = get_or_none(connection, path) or {}
    return [obj for obj in found.get("items") or () if obj.get("status")]


def _containers(call: Call, words: Words) -> Iterator[Candidate]:
    if not words.before:
        for obj in _listed(call, f"{names.CONTAINERS_API}/containers"):
            status = obj["status"]
            yield (
                status["name"],
                f"{status.get('imageName', '')} {status.get('status', '')}".strip(),
            )


def _images(call: Call, words: Words) -> Iterator[Candidate]:
    for obj in _listed(call, f"{names.CONTAINERS_API}/images"):
        status = obj["status"]
        text = status.get("repoTag") or status["id"].removeprefix("sha256:")[:12]
        yield text, status.get("readableSize", "")


def _volumes(call: Call, words: Words) -> Iterator[Candidate]:
    for obj in _listed(call, f"{names.CONTAINERS_API}/volumes"):
        yield obj["status"]["name"], obj["status"].get("driver", "")


def _machines(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.preview import machine_paths

    if not words.before:
        for name in machine_paths(call.instance):
            yield name, "machine"


def _snapshots(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.snapshot.object import store_of

    for entry in store_of(call).entries():
        if entry.name not in words.before:
            yield entry.name, entry.manifest.description or entry.manifest.scope.get("kind", "")


def _cached(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.cache.entries import cache_of
    from rdd.cli.commands.cache.releases import releases_of, title

    for release in releases_of(call):
        yield title(release), ""
    for entry in cache_of(call).entries():
        yield entry.digest.hexadecimal[:12], entry.location


def _exported(call: Call, words: Words) -> Iterator[Candidate]:
    if words.before:  # behind the file
        yield from _cached(call, words)


def _commands(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.declarations import ROOT
    from rdd.cli.framework.types import Command, Group, visible

    node: Command | Group | None = ROOT
    for word in words.before:
        node = node.find(word) if isinstance(node, Group) else None
    if isinstance(node, Group):
        for member in visible(node.members, developer=call.environment.developer_mode):
            yield member.name, member.summary


def _backups(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.daemon.service import backups

    if not words.before:
        yield from ((path.name, "") for path in backups.existing(call.instance))


def _quarantined(call: Call, words: Words) -> Iterator[Candidate]:
    import json

    try:
        found = json.loads(call.instance.quarantine_file.read_text())
    except ValueError:
        return
    yield from ((str(name), "damaged") for name in found)


def _tools(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.tools.selection import catalogue_of

    for name, tool in catalogue_of().tools.items():
        if words.current.startswith(f"{name}@"):
            yield from ((f"{name}@{version}", "") for version in tool.versions)
        else:
            yield name, tool.title


def _installed_tools(call: Call, words: Words) -> Iterator[Candidate]:
    from rdd.cli.commands.tools.selection import toolbox_of

    for one in toolbox_of(call).installed():
        if words.current.startswith(f"{one.tool}@"):
            yield f"{one.tool}@{one.version}", ""
        else:
            yield one.tool, one.version


def _kubectl(call: Call, words: Words) -> Iterator[Candidate]:
    yield from _of_kubectl(call, words, dict(call.environment.variables))


def _ctl(call: Call, words: Words) -> Iterator[Candidate]:
    config = call.instance.config
    if config.exists():
        yield from _of_kubectl(
            call, words, {**call.environment.variables, "KUBECONFIG": str(config)}
        )


def _of_kubectl(call: Call, words: Words, variables: dict[str, str]) -> Iterator[Candidate]:
    """Yield what kubectl itself completes; of the built-in one verbs and contexts."""
    from rdd.cli.commands.kubectl import choose

    path = choose(variables.get("RDD_KUBECTL", ""), call.environment.search_path)
    if path is None:
        yield from _of_builtin(words, variables)
        return
    from rdd.host.commands import run_blocking
    from rdd.host.errors import HostError

    try:
        done = run_blocking(
            path,
            "__complete",
            *words.before,
            words.current,
            environment=variables,
            timeout_s=_KUBECTL_TIMEOUT_S,
        )
    except HostError:
        return
    for line in done.output.splitlines():
        if line.startswith(":"):  # the directive after the last candidate
            return
        text, _, description = line.partition("\t")
        yield text, description


def _of_builtin(words: Words, variables: dict[str, str]) -> Iterator[Candidate]:
    last = words.before[-1] if words.before else ""
    is_context = last in ("use-context", "delete-context", "rename-context", "get-contexts")
    if last == "--context" or (is_context and "config" in words.before):
        from rdd.client.kubeconfig import KubeconfigError, default_paths
        from rdd.kubectl.kubeconfig import merge

        try:
            document = merge(default_paths(variables)).document()
        except KubeconfigError:
            return
        for context in document.get("contexts") or ():
            yield str(context.get("name", "")), "context"
    elif not words.before:
        from rdd.kubectl.main import VERBS

        yield from VERBS.items()


_SOURCES: dict[str, Callable[[Call, Words], Iterable[Candidate]]] = {
    "backups": _backups,
    "cache": _cached,
    "commands": _commands,
    "exported-cache": _exported,
    "quarantined": _quarantined,
    "assignments": _assignments,
    "containers": _containers,
    "ctl": _ctl,
    "images": _images,
    "installed-tools": _installed_tools,
    "instances": instances,
    "kubectl": _kubectl,
    "machines": _machines,
    "properties": _properties,
    "tools": _tools,
    "snapshots": _snapshots,
    "trash": _trash,
    "volumes": _volumes,
}
