# SPDX-License-Identifier: Apache-2.0
"""Container: a container of the engine; ContainerCreateRequest: a request to create one."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition, condition_path
from rdd.kinds.kind import Column, Kind
from rdd.kinds.parts.ports import BY_NAME, Port
from rdd.kinds.struct import UNSET, Struct, field

ContainerState = Literal[
    "created", "running", "pausing", "paused", "restarting", "removing", "exited", "dead",
    "unknown",
]  # fmt: skip
Action = Literal["start", "stop", "pause", "unpause", "restart"]


class ContainerSpec(Struct):
    """Empty: a container is changed by actions."""


class LastAction(Struct):
    """The last requested action and its result."""

    action: Action = field("The requested action.")
    state: Literal["Succeeded", "Failed"] = field("Result of the action.")
    error: str = field("Cause of the failure.", default=UNSET)
    observed_at: str = field(
        "When the request was received.", default=UNSET, schema=constraints.DATE_TIME
    )
    completed_at: str = field(
        "When the action completed.", default=UNSET, schema=constraints.DATE_TIME
    )


class ContainerStatus(Struct):
    """The container as the engine describes it."""

    name: str = field("Name of the container.")
    namespace: str = field("Namespace of the container in the engine.")
    path: str = field("The program that runs as its first process.")
    args: Sequence[str] = field("Arguments of that program.", default=UNSET)
    image: str = field("The image it was created from.")
    image_name: str = field("The image as it was given to create the container.", default=UNSET)
    labels: Mapping[str, str] = field("Labels in the engine.", default=UNSET)
    ports: Sequence[Port] = field(
        "Ports that are exposed or published.", default=UNSET, schema=BY_NAME
    )
    volumes: Sequence[str] = field("Names of the volumes it uses.", default=UNSET)
    networks: Sequence[str] = field("Names of the networks it is connected to.", default=UNSET)
    port_summary: str = field("The ports in one line, such as 0.0.0.0:8080->80/tcp.", default=UNSET)
    status: ContainerState = field(
        "The state as reported by the engine.", default="unknown", required=True
    )
    health: Literal["starting", "healthy", "unhealthy"] | None = field(
        "Result of its health checks. Absent without health checks.", default=None
    )
    pid: int = field(
        "Process ID of the first process. Absent unless it is running.",
        default=UNSET,
        schema=constraints.INT32,
    )
    exit_code: int | None = field(
        "Exit code of the first process.", default=None, schema=constraints.INT32
    )
    error: str = field("Cause of a failed start.", default=UNSET)
    created_at: str = field("When it was created.", default=UNSET, schema=constraints.DATE_TIME)
    started_at: str = field("When it last started.", default=UNSET, schema=constraints.DATE_TIME)
    finished_at: str = field("When it last exited.", default=UNSET, schema=constraints.DATE_TIME)
    last_action: LastAction | None = field(
        "The last requested action and its result.", default=None
    )
    conditions: Sequence[Condition] = field(
        "The state as conditions: Running, Paused, Restarting, OOMKilled, Dead.",
        default=UNSET,
        schema=BY_TYPE,
    )


class Container(
    Kind,
    group=names.CONTAINERS_GROUP,
    categories=("all",),
    columns=(
        # A condition's status is text: a column of type boolean stays empty.
        Column("Running", "string", condition_path("Running", "status")),
        Column("Container", "string", ".status.name"),
        Column("Image", "string", ".status.imageName"),
        Column("State", "string", ".status.status"),
        Column("Health", "string", ".status.health"),
        Column("Ports", "string", ".status.portSummary"),
        Column("Created", "date", ".status.createdAt"),
        Column("Image-ID", "string", ".status.image", is_wide=True),
        Column("Namespace", "string", ".status.namespace", is_wide=True),
    ),
    selectable=(".status.namespace",),
):
    """A container of the engine, named by its ID. Deleting it removes the container."""

    spec: ContainerSpec = field("Empty: a container is changed by actions.", default=UNSET)
    status: ContainerStatus = field("The container as the engine describes it.", default=UNSET)


class ContainerCreateSpec(Struct):
    """The container to create."""

    image: str = field("The image to create it from.")
    state: Literal["created", "running"] = field(
        "The desired state.",
        default="running",
        required=True,
        schema=constraints.all_of(get_args(ContainerState), ("created", "running")),
    )
    name: str = field("Name of the container. Without it, the engine chooses one.", default=UNSET)
    namespace: str = field("Namespace in the engine.", default=UNSET)
    path: str = field("Program to run instead of the program of the image.", default=UNSET)
    args: Sequence[str] = field("Arguments of the program.", default=UNSET)
    labels: Mapping[str, str] = field("Labels in the engine.", default=UNSET)
    ports: Sequence[Port] = field("Ports to expose or publish.", default=UNSET, schema=BY_NAME)


class ContainerCreateStatus(Struct):
    """The result of the request."""

    name: str = field("ID of the container, once it is created.", default=UNSET)
    conditions: Sequence[Condition] = field(
        "The result of the request: Complete or Failed.", default=UNSET, schema=BY_TYPE
    )


class ContainerCreateRequest(
    Kind,
    group=names.CONTAINERS_GROUP,
    selectable=(".spec.namespace",),
    annotations={names.CONTROLLER: "container"},
):
    """A request to create a container."""

    spec: ContainerCreateSpec = field("The container to create.")
    status: ContainerCreateStatus = field("The result of the request.", default=UNSET)
