# SPDX-License-Identifier: Apache-2.0
"""What the engine controller mirrors: items of the engine, and the objects that represent them.

An *item* is one thing in the engine: a container, an image, a network, a volume, a
namespace. It is the unit of work and the key in the queue. An item has any
number of *mirrors*; only an image has more than one, one per tag.

The engine controller changes and removes only objects that it created. A mirror
carries a label with the backend and an annotation with the item, so a mirror
whose status was never written can still be matched to its item.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

from rdd.api import names
from rdd.api.types import Object
from rdd.kinds.container import Container
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.image import Image
from rdd.kinds.kind import Kind
from rdd.kinds.network import Network
from rdd.kinds.volume import Volume
from rdd.runtime.finalizers import finalizers_of

MANAGER: Final = "engine-controller"
"""The field manager of mirrors."""
BACKEND: Final = f"{names.ENGINE_PREFIX}/backend"
"""The label of a mirror with the name of its backend."""
ITEM: Final = f"{names.ENGINE_PREFIX}/item"
"""The annotation of a mirror with `EngineItem.id`; also the name of the index by it."""

TAG: Final = "status.repoTag"
"""The index of images by tag."""

KINDS: Final[dict[str, type[Kind]]] = {
    kind.plural: kind for kind in (ContainerNamespace, Container, Image, Network, Volume)
}
"""Mirrored kinds by plural; namespaces first, since the others refer to theirs."""

CONTAINERS, IMAGES, VOLUMES = Container.plural, Image.plural, Volume.plural
NETWORKS = Network.plural
NAMESPACES = ContainerNamespace.plural

_NAMESPACED_BACKEND = "containerd"


class EngineItem(NamedTuple):
    """One thing in the engine, and the queue key of its mirrors."""

    kind: str
    """The plural of the kind of its mirrors."""
    namespace: str
    """In the engine; empty for namespaces themselves and for engines without namespaces."""
    name: str

    @property
    def id(self) -> str:
        """The item as the annotation ITEM stores it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    @classmethod
    def of(cls, kind: type[Kind], mirror: Object) -> "EngineItem":
        """Return the item of a mirror; its name is empty if the annotation is missing."""
        id_ = str((mirror["metadata"].get("annotations") or {}).get(ITEM, ""))
        if backend_of(mirror) == _NAMESPACED_BACKEND and kind is not ContainerNamespace:
            namespace, _, name = id_.partition("/")
            return cls(kind.plural, namespace, name)
        return cls(kind.plural, "", id_)


@dataclass(frozen=True, slots=True)
class Mirror:
    """The desired state of a mirror object."""

    kind: type[Kind]
    name: str
    status: Object = field(default_factory=dict)
    """Without conditions; empty for kinds without a status."""
    oom_killed: bool | None = None
    """Of a container."""

    @property
    def has_status(self) -> bool:
        return self.kind is not ContainerNamespace

    @property
    def finalizers(self) -> list[str]:
        """The finalizer that delays a deletion until the engine has removed the item."""
        return [names.MIRROR_FINALIZER] if self.has_status else []


def image_name(id_: str, tag: str) -> str:
    """Return the name of the mirror of a tag, or of an image without tags."""
    return "img-" + sha256(f"{id_}\0{tag}".encode() if tag else id_.encode()).hexdigest()


def volume_name(name: str) -> str:
    """Return the name of the mirror of a volume, whose own name may be invalid for an object."""
    return "vol-" + sha256(name.encode()).hexdigest()


def port_summary(ports: Iterable[Object]) -> str:
    """Return ports in one line, as `docker ps` prints them."""
    shown = []
    for port in ports:
        bindings = port.get("bindings") or ()
        shown += [f"{_host(b['hostIP'])}:{b['hostPort']}->{port['name']}" for b in bindings]
        if not bindings:
            shown.append(port["name"])
    return ", ".join(shown)


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address or "0.0.0.0"


def backend_of(obj: Object) -> str:
    """Return the backend label of an object; empty if it is not a mirror."""
    return str((obj["metadata"].get("labels") or {}).get(BACKEND, ""))


def item_id_of(obj: Object) -> str:
    """Return the item annotation of a mirror; empty for other objects."""
    if not backend_of(obj):
        return ""
    return str((obj["metadata"].get("annotations") or {}).get(ITEM, ""))


def index_by_item(obj: Object) -> Iterable[str]:
    id_ = item_id_of(obj)
    return (id_,) if id_ else ()


def index_by_tag(obj: Object) -> Iterable[str]:
    tag = (obj.get("status") or {}).get("repoTag")
    return (tag,) if tag and backend_of(obj) else ()


def item_keys(kind: type[Kind], obj: Object) -> Iterable[EngineItem]:
    """Return the queue key of the item of a mirror."""
    return (EngineItem.of(kind, obj),) if item_id_of(obj) else ()


def is_mirror(obj: Object) -> bool:
    """Return whether this controller created an object, even if its label was removed."""
    return bool(backend_of(obj)) or names.MIRROR_FINALIZER in finalizers_of(obj)


def marks_of(obj: Object) -> tuple[str, str]:
    """Return the label and the annotation that make an object a mirror.

    The finalizer is not one of them: removing it means deleting the object and keeping the item.
    """
    return backend_of(obj), item_id_of(obj)


def unknown_container(item: EngineItem, present: Object | None) -> Mirror:
    """Return the mirror of a container whose description is malformed.

    It keeps the members of the present mirror that are still useful.
    """
    name = present["metadata"]["name"] if present else item.name
    status = {"name": "", "namespace": "", "path": "", "image": ""}
    status |= (present or {}).get("status") or {}
    kept = {member: value for member, value in status.items() if member not in _NOT_KEPT}
    return Mirror(Container, name, {**kept, "status": "unknown"})


_NOT_KEPT = ("conditions", "lastAction", "pid", "health")
