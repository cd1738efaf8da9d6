# SPDX-License-Identifier: Apache-2.0
"""Network: a network of the engine; NetworkCreateRequest: a request to create one."""

from collections.abc import Mapping, Sequence

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Column, Kind
from rdd.kinds.struct import UNSET, Struct, field


class NetworkStatus(Struct):
    """The network as the engine describes it."""

    name: str = field("Name of the network in the engine.")
    namespace: str = field("Namespace of the network in the engine.")
    driver: str = field("The network driver.")
    scope: str = field("Scope of the network: local, global or swarm.")
    internal: bool = field("Whether it has no access to other networks.", default=UNSET)
    ipv6: bool = field("Whether IPv6 is enabled.", default=UNSET)
    subnets: Sequence[str] = field("Address ranges of the network.", default=UNSET)
    gateways: Sequence[str] = field("Addresses of its gateways.", default=UNSET)
    labels: Mapping[str, str] = field("Labels in the engine.", default=UNSET)
    created_at: str = field("When it was created.", default=UNSET, schema=constraints.DATE_TIME)


class Network(
    Kind,
    group=names.CONTAINERS_GROUP,
    categories=("all",),
    columns=(
        Column("Network", "string", ".status.name"),
        Column("Driver", "string", ".status.driver"),
        Column("Scope", "string", ".status.scope"),
        Column("Subnets", "string", ".status.subnets"),
        Column("Created", "date", ".status.createdAt"),
    ),
    selectable=(".status.namespace", ".status.name"),
):
    """A network of the engine, named by its ID. Deleting it removes the network."""

    status: NetworkStatus = field("The network as the engine describes it.", default=UNSET)


class NetworkCreateSpec(Struct):
    """The network to create."""

    name: str = field("Name of the network.", schema={"minLength": 1, "maxLength": 255})
    driver: str = field("The network driver.", default="bridge", required=True)
    internal: bool = field("Whether it has no access to other networks.", default=UNSET)
    ipv6: bool = field("Whether to enable IPv6.", default=UNSET)
    subnet: str = field("Address range, such as 172.30.0.0/16.", default=UNSET)
    gateway: str = field("Address of the gateway within the range.", default=UNSET)
    labels: Mapping[str, str] = field("Labels in the engine.", default=UNSET)
    namespace: str = field("Namespace in the engine.", default=UNSET)


class NetworkCreateStatus(Struct):
    """The result of the request."""

    name: str = field("ID of the network, once it is created.", default=UNSET)
    conditions: Sequence[Condition] = field(
        "The result of the request: Complete or Failed.", default=UNSET, schema=BY_TYPE
    )


class NetworkCreateRequest(
    Kind, group=names.CONTAINERS_GROUP, annotations={names.CONTROLLER: "network"}
):
    """A request to create a network."""

    spec: NetworkCreateSpec = field("The network to create.")
    status: NetworkCreateStatus = field("The result of the request.", default=UNSET)
