# SPDX-License-Identifier: Apache-2.0
"""Volume: a volume of the engine; VolumeCreateRequest: a request to create one."""

from collections.abc import Mapping, Sequence

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field


class VolumeStatus(Struct):
    """The volume as the engine describes it."""

    name: str = field("Name of the volume in the engine.")
    namespace: str = field("Namespace of the volume in the engine.")
    driver: str = field("The volume driver that stores the data.")
    mountpoint: str = field("Path of the data in the file system of the engine.")
    scope: str = field("Scope of the volume: local or global.")
    created_at: str = field("When it was created.", schema=constraints.DATE_TIME)
    labels: Mapping[str, str] = field("Labels in the engine.", default=UNSET)
    options: Mapping[str, str] = field("Options of the driver.", default=UNSET)


class Volume(
    Kind,
    group=names.CONTAINERS_GROUP,
    categories=("all",),
    columns=(
        Column("Driver", "string", ".status.driver"),
        Column("Volume", "string", ".status.name"),
        Column("Created", "date", ".status.createdAt"),
        Column("Mountpoint", "string", ".status.mountpoint", is_wide=True),
    ),
    selectable=(".status.namespace", ".status.name"),
):
    """A volume of the engine. Deleting it removes the volume."""

    status: VolumeStatus = field("The volume as the engine describes it.", default=UNSET)


class VolumeCreateSpec(Struct):
    """The volume to create."""

    driver: str = field("The volume driver that stores the data.")
    name: str = field("Name of the volume. Without it, the engine chooses one.", default=UNSET)
    namespace: str = field("Namespace in the engine.", default=UNSET)


class VolumeCreateStatus(Struct):
    """The result of the request."""

    conditions: Sequence[Condition] = field(
        "The result of the request: Complete or Failed.", default=UNSET, schema=BY_TYPE
    )


class VolumeCreateRequest(
    Kind, group=names.CONTAINERS_GROUP, annotations={names.CONTROLLER: "volume"}
):
    """A request to create a volume."""

    spec: VolumeCreateSpec = field("The volume to create.")
    status: VolumeCreateStatus = field("The result of the request.", default=UNSET)
