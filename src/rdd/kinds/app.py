# SPDX-License-Identifier: Apache-2.0
"""App: the settings of the container desktop and the state they led to."""

from collections.abc import Sequence
from typing import Literal

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class ContainerEngine(Struct):
    """The container engine of the virtual machine."""

    name: Literal["moby", "containerd"] = field(
        "Container engine to run. A change restarts the virtual machine.",
        default="moby",
        required=True,
    )


class Kubernetes(Struct):
    """The Kubernetes cluster of the virtual machine."""

    enabled: bool = field("Whether to run Kubernetes (k3s).")
    version: str = field(
        "Kubernetes version such as 1.34.6, or a channel such as stable. "
        "A channel is replaced by its current version when it is set.",
        default=UNSET,
    )


class VirtualMachine(Struct):
    """The resources and the driver of the virtual machine."""

    cpus: int = field(
        "Number of virtual CPUs, at most those of the host. Zero stands for the default. "
        "The type host does not use it.",
        default=UNSET,
    )
    memory: str = field(
        "Amount of memory, such as 4Gi. At least 2Gi, at most what the host has. "
        "The type host does not use it, and has no limits for it.",
        default=UNSET,
        schema=constraints.QUANTITY,
    )
    type: Literal["auto", "lima", "qemu", "host"] | None = field(
        "What runs the containers: Lima, QEMU, or the host itself without a virtual machine. "
        "auto, like no value, stands for the best that works on this host. "
        "It cannot be changed once the virtual machine exists.",
        default=None,
    )


class Proxy(Struct):
    """How the virtual machine, the engine and Kubernetes reach the network."""

    http_proxy: str = field(
        "URL of the proxy for HTTP, such as http://proxy.example.com:3128. "
        "A name and a password can be part of it.",
        default=UNSET,
    )
    https_proxy: str = field(
        "URL of the proxy for HTTPS. Without it, that of HTTP is used for both.", default=UNSET
    )
    no_proxy: Sequence[str] = field(
        "Hosts, domains and networks that are reached without the proxy. "
        "The host itself and the networks of Kubernetes always are.",
        default=UNSET,
    )


class Certificates(Struct):
    """Whom the virtual machine, the engine and Kubernetes trust."""

    authorities: Sequence[str] = field(
        "Certificates of authorities to trust besides the usual ones, each in PEM. "
        "One that cannot be read is left out, with a warning.",
        default=UNSET,
    )


class RegistryMirror(Struct):
    """Where the images of one registry are fetched instead."""

    registry: str = field("Host of the registry, such as docker.io or registry.example.com:5000.")
    endpoints: Sequence[str] = field(
        "URLs of its mirrors, asked one after the other, then the registry itself."
    )


class Registries(Struct):
    """Where images come from."""

    mirrors: Sequence[RegistryMirror] = field(
        "Mirrors of registries. The engine moby can use only those of docker.io; "
        "containerd and Kubernetes use all.",
        default=UNSET,
        schema=constraints.list_map("registry"),
    )
    insecure: Sequence[str] = field(
        "Hosts of registries that are reached without TLS or whose certificate is not checked.",
        default=UNSET,
    )


class Updates(Struct):
    """Updates of the graphical application."""

    enabled: bool = field(
        "Whether the graphical application looks for newer versions of itself.", default=True
    )


class Application(Struct):
    """Settings that only the graphical application uses."""

    updates: Updates = field("Updates of the graphical application.", default={"enabled": True})


class AppSpec(Struct):
    """What is wanted."""

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
        "How the virtual machine, the engine and Kubernetes reach the network. "
        "A change restarts the virtual machine, as do those of certificates and registries.",
        default=UNSET,
    )
    certificates: Certificates = field(
        "Whom the virtual machine, the engine and Kubernetes trust.", default=UNSET
    )
    registries: Registries = field("Where images come from.", default=UNSET)
    application: Application = field(
        "Settings that only the graphical application uses.",
        default={"updates": {"enabled": True}},
    )


class AppStatus(Struct):
    """What was found."""

    kubernetes_port: int = field(
        "Port of the host on which the Kubernetes API is meant to be served. "
        "Zero, like no value, means none.",
        default=UNSET,
    )
    virtual_machine_type: str = field(
        "What runs the containers: lima, qemu or host. It is chosen once, before the virtual "
        "machine is made.",
        default=UNSET,
    )
    conditions: Sequence[Condition] = field(
        "The state of the application: Created, Running, ContainerEngineReady, KubernetesReady, "
        "Settled for all of it. RestartPending is there while a restart would change something.",
        default=UNSET,
        schema=BY_TYPE,
    )


class App(
    Kind,
    group=names.APP_GROUP,
    namespaced=False,
    categories=("all",),
    schema=constraints.rule("self.metadata.name == 'app'", "App resource must be named 'app'"),
):
    """The container desktop of this user: its settings and its state. There is one, named app."""

    spec: AppSpec = field("The settings.", default=UNSET)
    status: AppStatus = field("The state the settings led to.", default=UNSET)
