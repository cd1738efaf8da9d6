# SPDX-License-Identifier: Apache-2.0
"""The objects a command applies to: `TYPE NAME…`, `TYPE/NAME…`, `TYPE,TYPE -l …`, `-f FILE`.

A reference names an object or, without a name, a collection. Verbs that work on
objects list collections first (`-l`, `--all`, `--field-selector`).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.client.resources import ApiResource
from rdd.kubectl import manifests
from rdd.kubectl.errors import FAILURES, Failure, KubectlError, VerbatimError, raise_all, within
from rdd.kubectl.session import Session

_T = TypeVar("_T")
_PAGE = 500

SELECTOR = Flag("selector", "label selector", short="l")
FIELD_SELECTOR = Flag("field-selector", "field selector")
ALL_NAMESPACES = Flag("all-namespaces", "objects of all namespaces", "bool", short="A")
ALL = Flag("all", "all objects of the type", "bool")


class Ref(NamedTuple):
    """An object, or all objects of a resource when it has no name."""

    resource: ApiResource
    namespace: str  # empty: cluster-scoped, or all namespaces
    name: str = ""
    source: str = ""  # the file it was named in
    object: Object | None = None  # as written in the file, or as listed

    @property
    def path(self) -> str:
        """Path of the object or collection."""
        return self.resource.path(self.namespace, self.name)

    def sub(self, subresource: str) -> str:
        """Return the path of a subresource."""
        return self.resource.path(self.namespace, self.name, subresource)

    @property
    def printed(self) -> str:
        """`configmap/a`, as in messages."""
        return f"{printed_kind(self.resource)}/{self.name}"


def printed_kind(resource: ApiResource) -> str:
    """Return a kind as messages and `-o name` show it, `role.rbac.authorization.k8s.io`."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind


def references(session: Session, args: list[str] | None = None) -> list[Ref]:
    """Return the objects and collections that the arguments (or `-f`) name."""
    if session.flags.texts("filename"):
        if args if args is not None else session.args:
            raise KubectlError(
                "when paths, URLs, or stdin is provided as resource input, you may not specify"
                " resource arguments as well"
            )
        return [from_manifest(session, m) for m in manifests.read(session)]
    return from_arguments(session, session.args if args is None else args)


def from_arguments(session: Session, args: list[str]) -> list[Ref]:
    """Return the references of `TYPE NAME…`, `TYPE/NAME…` or `TYPE,TYPE`."""
    if not args:
        return []
    is_everywhere = session.flags.truth("all-namespaces")
    if any("/" in arg for arg in args):
        pairs = [_pair(arg) for arg in args]
    else:
        types = [t for t in args[0].split(",") if t]
        if len(types) < len(args[0].split(",")):
            raise KubectlError(
                "arguments in resource/name form must have a single resource and name"
                if not types
                else f'there is an empty resource type in "{args[0]}"'
            )
        pairs = [(t, name) for t in types for name in args[1:] or [""]]
    named = any(name for _, name in pairs)
    if named and is_everywhere:
        raise KubectlError("a resource cannot be retrieved by name across all namespaces")
    if named and session.flags.text("selector"):
        raise KubectlError("name cannot be provided when a selector is specified")
    return [
        Ref(resource, "" if is_everywhere else _namespace(session, resource), name)
        for word, name in pairs
        for resource in _resources(session, word)
    ]


def _pair(arg: str) -> tuple[str, str]:
    word, slash, name = arg.partition("/")
    if not slash:
        raise KubectlError(
            "there is no need to specify a resource type as a separate argument when passing"
            " arguments in resource/name form (e.g. 'kubectl get resource/<resource_name>'"
            " instead of 'kubectl get resource resource/<resource_name>'"
        )
    if not word or not name or "/" in name:
        raise KubectlError("arguments in resource/name form must have a single resource and name")
    return word, name


def _resources(session: Session, word: str) -> list[ApiResource]:
    return session.resources.category(word) or [session.resource(word)]


def _namespace(session: Session, resource: ApiResource) -> str:
    return session.namespace if resource.namespaced else ""


def from_manifest(session: Session, manifest: manifests.Manifest) -> Ref:
    """Return the reference of an object in a file. Raises KubectlError for an unknown kind."""
    obj, source = manifest
    written_metadata = obj.get("metadata")
    metadata: Object = written_metadata if isinstance(written_metadata, dict) else {}
    name, written = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
    resource = session.resources.by_kind(api_version, kind)
    if resource is None:
        raise KubectlError(
            f'resource mapping not found for name: "{name}" namespace: "{written}" from "{source}":'
            f' no matches for kind "{kind}" in version "{api_version}"\n'
            "ensure CRDs are installed first"
        )
    if not resource.namespaced:
        return Ref(resource, "", name, source, obj)
    requested = session.flags.text("namespace")
    if written and requested and written != requested:
        raise KubectlError(
            f'the namespace from the provided object "{written}" does not match the namespace'
            f" \"{requested}\". You must pass '--namespace={written}' to perform this operation."
        )
    namespace = written or session.namespace
    if not written:
        obj = {**obj, "metadata": {**metadata, "namespace": namespace}}
    return Ref(resource, namespace, name, source, obj)


def manifest_references(session: Session, *, verb: str) -> tuple[list[Ref], list[Failure]]:
    """Return the objects of `-f`, and the failures of those that cannot be mapped."""
    refs: list[Ref] = []
    errors: list[Failure] = []
    found = manifests.read(session, validate=validates(session))
    for manifest in found:
        try:
            refs.append(from_manifest(session, manifest))
        except FAILURES as error:
            errors.append(error)
    if not found:
        raise KubectlError(f"no objects passed to {verb}")
    return refs, errors


def validates(session: Session) -> bool:
    """Return whether `--validate` enables validation."""
    return session.flags.text("validate") not in ("false", "ignore")


def objects(session: Session, refs: Iterable[Ref]) -> list[Ref]:
    """Return references to single objects: collections are listed."""
    found: list[Ref] = []
    for ref in refs:
        if ref.name:
            found.append(ref)
            continue
        listed = list_objects(session, ref)
        found += [ref_of(ref.resource, item) for item in listed.get("items") or ()]
    return found


def ref_of(resource: ApiResource, obj: Object) -> Ref:
    """Return the reference to an object of the server."""
    metadata = obj["metadata"]
    return Ref(resource, metadata.get("namespace", ""), metadata["name"], object=obj)


def list_objects(session: Session, ref: Ref, *, accept: str = "", **query: str) -> Object:
    """Return a whole collection, fetched page by page, as one list (or Table)."""
    flags = session.flags
    labels, fields = flags.text("selector"), flags.text("field-selector")
    parameters: dict[str, str | int] = {
        "labelSelector": labels,
        "fieldSelector": fields,
        "limit": flags.text("chunk-size") or _PAGE,
        **query,
    }
    whole: Object | None = None
    while True:
        try:
            page: Object = session.api.get(
                ref.path, parameters, accept=accept or "application/json"
            )
        except ApiError as error:
            if error.reason not in ("BadRequest", "NotFound"):
                raise
            context = f'Unable to list "{ref.resource}"'
            if labels or fields:
                context = (
                    f'Unable to find "{ref.resource}" that match label selector "{labels}",'
                    f' field selector "{fields}"'
                )
            raise within(error, context) from None
        if whole is None:
            whole = page
        else:
            member = "rows" if "rows" in page else "items"
            whole[member] = [*(whole.get(member) or ()), *(page.get(member) or ())]
        more = (page.get("metadata") or {}).get("continue")
        if not more:
            break
        parameters["continue"] = more
    for item in whole.get("items") or ():
        # Items of a list have neither kind nor apiVersion on the wire.
        item.setdefault("apiVersion", ref.resource.api_version)
        item.setdefault("kind", ref.resource.kind)
    return whole


def fetch(session: Session, ref: Ref) -> Object:
    """Return the current state of an object."""
    obj: Object = session.api.get(ref.path)
    return obj


def for_each(items: Iterable[_T], do: Callable[[_T], None]) -> None:
    """Call `do` for each item, then raise the collected failures."""
    errors: list[Failure] = []
    for item in items:
        try:
            do(item)
        except FAILURES as error:
            errors.append(error)
    raise_all(errors)


def require_arguments(session: Session) -> None:
    """Raise an error for a command without objects."""
    if not session.args and not session.flags.texts("filename"):
        raise VerbatimError(
            "error: You must provide one or more resources by argument or filename.\n"
            "Example resource specifications include:\n"
            "   '-f rsrc.yaml'\n"
            "   '--filename=rsrc.json'\n"
            "   '<resource> <name>'\n"
            "   '<resource>'"
        )
