# SPDX-License-Identifier: Apache-2.0
"""What is mirrored: things of the engine, and the objects that stand for them.

An *item* is one thing in the engine: a container, an image, a volume, a
namespace. It is the unit of work, and its key is what goes through the queue:
the plural of its kind and the engine's name for it. An item has any number of
*mirrors*; only an image has more than one, one per tag.

Mirrors are ours, and only ours are ever changed or removed. They carry a label
with the backend, and an annotation with the item, so that one whose status was
never written can be told to which item it belongs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from rdd.api.types import Object
from rdd.kinds.container import Container
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.image import Image
from rdd.kinds.kind import Kind
from rdd.kinds.volume import Volume
from rdd.runtime import ObjectKey
from rdd.runtime.finalizers import MIRROR, finalizers_of

MANAGER: Final = "engine-controller"
"""Owns the fields of mirrors."""
BACKEND: Final = "engine.rancherdesktop.io/backend"
"""The label of a mirror."""
ITEM: Final = "engine.rancherdesktop.io/item"
"""The annotation of a mirror; also the index by it."""

TAG: Final = "status.repoTag"
"""The index of images by tag."""

KINDS: Final[dict[str, type[Kind]]] = {
    kind.plural: kind for kind in (ContainerNamespace, Container, Image, Volume)
}
"""Mirrored kinds by plural; namespaces first, since the others name theirs."""

CONTAINERS, IMAGES, VOLUMES = Container.plural, Image.plural, Volume.plural
NAMESPACES = ContainerNamespace.plural


@dataclass(frozen=True, slots=True)
class Mirror:
    """An object as it should be."""

    kind: type[Kind]
    name: str
    status: Object = field(default_factory=dict)
    """Without conditions; empty for kinds without a status."""
    oom_killed: bool | None = None
    """Of a container."""

    @property
    def has_status(self) -> bool:
        """Whether there is a status to write."""
        return self.kind is not ContainerNamespace

    @property
    def finalizers(self) -> list[str]:
        """What a deletion has to wait for: the engine, where it is asked to remove something."""
        return [MIRROR] if self.has_status else []


def image_name(id_: str, tag: str) -> str:
    """The name of the mirror of a tag, or of an image without any."""
    return "img-" + sha256(f"{id_}\0{tag}".encode() if tag else id_.encode()).hexdigest()


def volume_name(name: str) -> str:
    """The name of the mirror of a volume, whose own name may be no name of an object."""
    return "vol-" + sha256(name.encode()).hexdigest()


def backend_of(obj: Object) -> str:
    """The backend an object mirrors; empty for objects of others."""
    return str((obj["metadata"].get("labels") or {}).get(BACKEND, ""))


def item_of(obj: Object) -> str:
    """The engine's name for what an object mirrors; empty for objects of others."""
    metadata = obj["metadata"]
    if BACKEND not in (metadata.get("labels") or {}):
        return ""
    return str((metadata.get("annotations") or {}).get(ITEM, ""))


def by_item(obj: Object) -> Iterable[str]:
    """The index of mirrors by item."""
    item = item_of(obj)
    return (item,) if item else ()


def by_tag(obj: Object) -> Iterable[str]:
    """The index of images by tag; those without any are not in it."""
    tag = (obj.get("status") or {}).get("repoTag")
    return (tag,) if tag and BACKEND in (obj["metadata"].get("labels") or {}) else ()


def item_key(kind: type[Kind], obj: Object) -> Iterable[ObjectKey]:
    """The key of the item of a mirror."""
    item = item_of(obj)
    return (ObjectKey(kind.plural, item),) if item else ()


def is_mirror(obj: Object) -> bool:
    """Whether an object was made by us, even if somebody took its label away."""
    return bool(backend_of(obj)) or MIRROR in finalizers_of(obj)


def marks_of(obj: Object) -> tuple[str, str]:
    """What makes an object a mirror; others may take it away or change it.

    Not the finalizer: who takes it away wants the object gone and the thing kept.
    """
    return backend_of(obj), item_of(obj)


def unknown_container(id_: str, known: Object) -> Mirror:
    """The mirror of a container whose description makes no sense, from what was known before."""
    status = {"name": "", "namespace": "", "path": "", "image": ""} | (known.get("status") or {})
    kept = {name: value for name, value in status.items() if name not in _NOT_KEPT}
    return Mirror(Container, id_, {**kept, "status": "unknown"})


_NOT_KEPT = ("conditions", "lastAction", "pid")
