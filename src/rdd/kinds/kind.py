# SPDX-License-Identifier: Apache-2.0
"""A kind: a Struct with names, metadata and the other settings of its definition.

    class LimaVM(Kind, group=names.LIMA_GROUP, categories=("all",)):
        spec: LimaVMSpec = field("The desired virtual machine.")
        status: LimaVMStatus = field("The observed virtual machine.", default=UNSET)

    vm = LimaVM.of(obj)                                    # a typed view
    LimaVM(metadata=ObjectMeta(name="rd"), spec=…).raw     # an object to create

A kind with a field `status` has the status subresource.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from rdd.api import names
from rdd.kinds.metadata import ObjectMeta
from rdd.kinds.struct import UNSET, Struct, field


class Column(NamedTuple):
    """A column of `kubectl get`."""

    name: str
    type: str
    json_path: str
    format: str = ""
    is_wide: bool = False
    """Whether only `-o wide` shows it."""


class Presentation(NamedTuple):
    """The settings of a definition besides names and schema."""

    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Column, ...]
    selectable: tuple[str, ...]
    """JSON paths that field selectors can use."""
    annotations: Mapping[str, str]
    """Annotations of the definition itself."""
    schema: Mapping[str, Any]
    """Additional members of the schema of the whole object (see rdd.kinds.constraints)."""


class Kind(Struct):
    """An object of a custom resource."""

    group: ClassVar[str]
    version: ClassVar[str] = names.VERSION
    kind: ClassVar[str]
    plural: ClassVar[str]
    namespaced: ClassVar[bool]
    api_version: ClassVar[str]
    crd_name: ClassVar[str]
    """The name of its CustomResourceDefinition."""
    presentation: ClassVar[Presentation]

    metadata: ObjectMeta = field("Standard metadata of an object.", default=UNSET)

    def __init_subclass__(
        cls,
        *,
        group: str,
        plural: str = "",
        namespaced: bool = True,
        short_names: tuple[str, ...] = (),
        categories: tuple[str, ...] = (),
        columns: tuple[Column, ...] = (),
        selectable: tuple[str, ...] = (),
        annotations: Mapping[str, str] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init_subclass__()
        cls.group = group
        cls.kind = cls.__name__
        cls.plural = plural or f"{cls.kind.lower()}s"
        cls.namespaced = namespaced
        cls.api_version = f"{group}/{cls.version}"
        cls.crd_name = f"{cls.plural}.{group}"
        cls.presentation = Presentation(
            short_names, categories, columns, selectable, annotations or {}, schema or {}
        )
        cls._preset = {"apiVersion": cls.api_version, "kind": cls.kind}
