# SPDX-License-Identifier: Apache-2.0
"""App: the settings of the container desktop and its state.

The fields declare their schema and constant defaults (`struct.py`). Defaults that depend on the
host, and rules across fields, are in `controllers/app/app/admission.py`.
"""

from collections.abc import Sequence
from typing import Literal

from rdd.api import names
from rdd.base import container_logs
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition, condition_path
from rdd.kinds.kind import Column, Kind
from rdd.kinds.parts.failure import Failure
from rdd.kinds.parts.idle import Idle
from rdd.kinds.parts.resource_limits import ResourceLimits
from rdd.kinds.struct import UNSET, Struct, field


class ContainerLogs(Struct):
    """The bound of the log of each container of the engine moby."""

    max_size: str = field(
        "Size at which a log file of a container is rotated, such as 20m. It applies to containers "
        "that are created afterwards.",
        default=container_logs.MAX_SIZE,
        schema={"pattern": "^[1-9][0-9]{0,8}[kmg]$"},
    )
    max_files: int = field(
        "Number of log files that are kept of a container.",
        default=container_logs.MAX_FILES,
        schema={"minimum": 1, "maximum": 100},
    )


class ContainerEngine(Struct):
    """The container engine of the virtual machine."""

    name: Literal["moby", "containerd"] = field(
        "Container engine to run. A change restarts the virtual machine.",
        default="moby",
        required=True,
    )
    version: str = field(
        "Version of the engine in the toolbox, such as 28.5.1, with the type host. It is fetched "
        "if it is missing. Without a value, the installed engine of this host runs. "
        "A change restarts the engine and keeps its containers, images and volumes.",
        default=UNSET,
    )
    logs: ContainerLogs = field(
        "The bound of the log of each container of the engine moby. A change restarts the engine.",
        default=UNSET,
    )


class Kubernetes(Struct):
    """The Kubernetes cluster of the virtual machine."""

    enabled: bool = field("Whether to run Kubernetes (k3s).")
    version: str = field(
        "Kubernetes version such as 1.34.6, or a channel such as stable. "
        "A channel is resolved to its current version when it is set.",
        default=UNSET,
    )


class VirtualMachine(Struct):
    """The resources and the driver of the virtual machine."""

    cpus: int = field(
        "Number of CPUs, at most those of the host. Zero means the default. With the type host, "
        "an explicit value limits everything that runs; the default limits nothing.",
        default=UNSET,
    )
    memory: str = field(
        "Amount of memory, such as 4Gi. At least 2Gi, at most the memory of the host. "
        "With the type host, an explicit value limits everything that runs; the default limits "
        "nothing.",
        default=UNSET,
        schema=constraints.QUANTITY,
    )
    disk: str = field(
        "Size of the disk, such as 200Gi; 100Gi without a value. It can grow, with the type qemu "
        "while the machine runs, and cannot shrink. The type host has no disk of its own.",
        default=UNSET,
        schema=constraints.QUANTITY,
    )
    type: Literal["auto", "lima", "qemu", "host"] | None = field(
        "The driver that runs the containers: Lima, QEMU, or the host without a virtual machine. "
        "auto, like no value, selects the best driver for this host. "
        "It cannot be changed once the virtual machine exists.",
        default=None,
    )


class Proxy(Struct):
    """The HTTP proxy of the virtual machine, the engine and Kubernetes."""

    http_proxy: str = field(
        "URL of the proxy for HTTP, such as http://proxy.example.com:3128. "
        "It can contain credentials.",
        default=UNSET,
    )
    https_proxy: str = field(
        "URL of the proxy for HTTPS. Defaults to the proxy for HTTP.", default=UNSET
    )
    no_proxy: Sequence[str] = field(
        "Hosts, domains and networks that bypass the proxy. "
        "The host and the networks of Kubernetes always bypass it.",
        default=UNSET,
    )


class Certificates(Struct):
    """Additional certificate authorities of the virtual machine, the engine and Kubernetes."""

    authorities: Sequence[str] = field(
        "Certificates of additional authorities, each in PEM. "
        "An unreadable certificate is ignored with a warning.",
        default=UNSET,
    )


class RegistryMirror(Struct):
    """The mirrors of one registry."""

    registry: str = field("Host of the registry, such as docker.io or registry.example.com:5000.")
    endpoints: Sequence[str] = field(
        "URLs of its mirrors, tried in order before the registry itself."
    )


class Registries(Struct):
    """Settings of image registries."""

    mirrors: Sequence[RegistryMirror] = field(
        "Mirrors of registries. The engine moby supports only mirrors of docker.io; "
        "containerd and Kubernetes support all.",
        default=UNSET,
        schema=constraints.list_map("registry"),
    )
    insecure: Sequence[str] = field(
        "Hosts of registries that are accessed without TLS or without certificate verification.",
        default=UNSET,
    )


class Downloads(Struct):
    """What rdd may fetch, and from where."""

    automatic: bool = field("Whether missing programs are fetched without asking.", default=UNSET)
    mirror: str = field(
        "Base URL from which everything is fetched: the file of https://host/path is at "
        "<mirror>/host/path. Checksums are verified in any case.",
        default=UNSET,
    )


class Updates(Struct):
    """Updates of the graphical application."""

    enabled: bool = field("Whether the graphical application checks for updates.", default=True)


class Application(Struct):
    """Settings that only the graphical application uses."""

    updates: Updates = field("Updates of the graphical application.", default={"enabled": True})


class AppSpec(Struct):
    """The desired state."""

    running: bool = field("Whether the virtual machine should run.")
    namespace: str = field(
        "Namespace of the virtual machine, its templates and the mirrored containers, images and "
        "volumes. It is created if it does not exist, and cannot be changed.",
        default="default",
        schema=constraints.immutable("spec.namespace is immutable"),
    )
    container_engine: ContainerEngine = field(
        "The container engine of the virtual machine.", default={"name": "moby"}
    )
    kubernetes: Kubernetes = field("The Kubernetes cluster of the virtual machine.", default=UNSET)
    virtual_machine: VirtualMachine = field(
        "The resources and the driver of the virtual machine.", default=UNSET
    )
    proxy: Proxy = field(
        "The HTTP proxy of the virtual machine, the engine and Kubernetes. "
        "A change restarts the virtual machine, like a change of certificates or registries.",
        default=UNSET,
    )
    certificates: Certificates = field(
        "Additional certificate authorities of the virtual machine, the engine and Kubernetes.",
        default=UNSET,
    )
    registries: Registries = field("Settings of image registries.", default=UNSET)
    downloads: Downloads = field("What rdd may fetch, and from where.", default=UNSET)
    idle: Idle = field(
        "When the virtual machine counts as idle, and what happens then. Off by default; "
        "a change takes effect without a restart.",
        default=UNSET,
    )
    application: Application = field(
        "Settings that only the graphical application uses.",
        default={"updates": {"enabled": True}},
    )


class AppStatus(Struct):
    """The observed state."""

    kubernetes_port: int = field(
        "Host port of the Kubernetes API. Zero, like no value, means none.",
        default=UNSET,
    )
    virtual_machine_type: str = field(
        "The driver that runs the containers: lima, qemu or host. It is selected once, before "
        "the virtual machine is created.",
        default=UNSET,
    )
    passed_over: Sequence[str] = field(
        "The drivers that auto prefers to the selected one and that do not work here. Each has "
        "the reason and what changes that.",
        default=UNSET,
    )
    resource_limits: ResourceLimits | None = field(
        "The limits that are enforced while the type host runs, from explicit values of "
        "spec.virtualMachine.",
        default=None,
    )
    failure: Failure | None = field(
        "Why the App does not settle, if only the user can help.", default=None
    )
    conditions: Sequence[Condition] = field(
        "The state of the application: Created, Running, ContainerEngineReady, KubernetesReady, "
        "and Settled for all of it. RestartPending exists while changes need a restart, "
        "DiskPressure while disk space is short. "
        "Paused exists while spec.idle has an action, "
        "ClockSynchronized while a guest runs whose clock is compared, "
        "MemoryReclaimed while a guest runs whose memory is measured.",
        default=UNSET,
        schema=BY_TYPE,
    )


class App(
    Kind,
    group=names.APP_GROUP,
    namespaced=False,
    categories=("all",),
    columns=(
        Column("Running", "string", condition_path("Running", "status")),
        Column("Settled", "string", condition_path("Settled", "status")),
        Column("Engine", "string", ".spec.containerEngine.name"),
        Column("Kubernetes", "string", condition_path("KubernetesReady", "reason")),
        Column("Age", "date", ".metadata.creationTimestamp"),
        Column("Type", "string", ".status.virtualMachineType", is_wide=True),
        Column("Message", "string", condition_path("Settled", "message"), is_wide=True),
        Column("Paused", "string", condition_path("Paused", "status"), is_wide=True),
    ),
    schema=constraints.rule("self.metadata.name == 'app'", "App resource must be named 'app'"),
):
    """The container desktop of this user: its settings and its state. A singleton named app."""

    spec: AppSpec = field("The settings.", default=UNSET)
    status: AppStatus = field("The observed state.", default=UNSET)
