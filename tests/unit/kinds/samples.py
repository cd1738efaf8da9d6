# SPDX-License-Identifier: Apache-2.0
"""One valid object of each kind, with every required field and some others."""

from rdd.kinds.app import App, AppSpec, AppStatus
from rdd.kinds.conditions import Condition
from rdd.kinds.configmapreplicaset import (
    ConfigMapReplicaSet,
    ConfigMapReplicaSetSpec,
    ConfigMapReplicaSetStatus,
)
from rdd.kinds.container import (
    Container,
    ContainerCreateRequest,
    ContainerCreateSpec,
    ContainerCreateStatus,
    ContainerSpec,
    ContainerStatus,
    LastAction,
)
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.demo import Demo, DemoSpec, DemoStatus
from rdd.kinds.diagnostic import Diagnostic, DiagnosticStatus
from rdd.kinds.hostinfo import HostInfo, HostInfoSpec, HostInfoStatus
from rdd.kinds.image import (
    BuildProgress,
    Image,
    ImageBuildRequest,
    ImageBuildSpec,
    ImageBuildStatus,
    ImagePullRequest,
    ImagePullSpec,
    ImagePushRequest,
    ImagePushSpec,
    ImageScanRequest,
    ImageScanSpec,
    ImageScanStatus,
    ImageStatus,
    ImageTagRequest,
    ImageTagSpec,
    RequestStatus,
    TransferStatus,
)
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import LimaVM, LimaVMSpec, LimaVMStatus, TemplateReference
from rdd.kinds.metadata import ObjectMeta
from rdd.kinds.network import (
    Network,
    NetworkCreateRequest,
    NetworkCreateSpec,
    NetworkCreateStatus,
    NetworkStatus,
)
from rdd.kinds.notary import Notary, NotarySpec, NotaryStatus
from rdd.kinds.parts.ports import Port, PortBinding
from rdd.kinds.resource import (
    Checkout,
    CheckoutSpec,
    CheckoutStatus,
    Resource,
    ResourceSpec,
    ResourceStatus,
)
from rdd.kinds.snapshot import Snapshot, SnapshotScope, SnapshotSpec, SnapshotStatus
from rdd.kinds.urlmonitor import URLMonitor, URLMonitorSpec, URLMonitorStatus
from rdd.kinds.volume import (
    Volume,
    VolumeCreateRequest,
    VolumeCreateSpec,
    VolumeCreateStatus,
    VolumeStatus,
)

NOW = "2026-01-02T03:04:05Z"


def condition(type_: str = "Running") -> Condition:
    return Condition(
        type=type_,
        status="True",
        reason="Started",
        message="It is up.",
        last_transition_time=NOW,
        observed_generation=1,
    )


_META = ObjectMeta(name="one", namespace="default")
_CONDITIONS = [condition()]
_PORTS = [
    Port(name="80/tcp", bindings=[PortBinding(host_ip="0.0.0.0", host_port="8080")]),
    Port(name="53/udp"),
]

_ALL: tuple[Kind, ...] = (
    App(
        metadata=ObjectMeta(name="app"),
        spec=AppSpec(running=True),
        status=AppStatus(kubernetes_port=7441, conditions=_CONDITIONS),
    ),
    Demo(
        metadata=ObjectMeta(name="demo"),
        spec=DemoSpec(message="hello", count=2),
        status=DemoStatus(processed_count=1, last_processed=NOW, conditions=_CONDITIONS),
    ),
    LimaVM(
        metadata=_META,
        spec=LimaVMSpec(template_ref=TemplateReference(name="rd")),
        status=LimaVMStatus(
            conditions=_CONDITIONS,
            template_config_map="one-template",
            observed_template_resource_version="12",
            restart_needed=True,
            restart_count=1,
        ),
    ),
    Container(
        metadata=_META,
        spec=ContainerSpec(),
        status=ContainerStatus(
            name="web",
            namespace="moby",
            path="/bin/httpd",
            args=["-f"],
            image="busybox",
            labels={"a": "b"},
            ports=_PORTS,
            status="running",
            pid=17,
            exit_code=0,
            error="none",
            created_at=NOW,
            started_at=NOW,
            finished_at=NOW,
            last_action=LastAction(
                action="start",
                state="Failed",
                error="no such image",
                observed_at=NOW,
                completed_at=NOW,
            ),
            conditions=_CONDITIONS,
        ),
    ),
    ContainerCreateRequest(
        metadata=_META,
        spec=ContainerCreateSpec(
            image="busybox",
            name="web",
            namespace="moby",
            path="/bin/sh",
            args=["-c", "true"],
            labels={"a": "b"},
            ports=_PORTS,
        ),
        status=ContainerCreateStatus(name="0123abcd", conditions=_CONDITIONS),
    ),
    ContainerNamespace(metadata=_META),
    Image(
        metadata=_META,
        status=ImageStatus(
            namespace="moby",
            id="sha256:1234",
            repo_tag="busybox:latest",
            repo_digests=["busybox@sha256:1234"],
            architecture="amd64",
            os="linux",
            size=2_000_000_000,
            created_at=NOW,
            labels={"a": "b"},
            conditions=_CONDITIONS,
        ),
    ),
    ImagePullRequest(
        metadata=_META,
        spec=ImagePullSpec(repo_tag="busybox:latest", namespace="moby"),
        status=TransferStatus(conditions=_CONDITIONS),
    ),
    ImagePushRequest(
        metadata=_META,
        spec=ImagePushSpec(image_ref="busybox"),
        status=TransferStatus(conditions=_CONDITIONS),
    ),
    ImageScanRequest(
        metadata=_META,
        spec=ImageScanSpec(image_ref="busybox"),
        status=ImageScanStatus(conditions=_CONDITIONS, result="{}"),
    ),
    ImageTagRequest(
        metadata=_META,
        spec=ImageTagSpec(image_ref="busybox", repo_tag="tools:1"),
        status=RequestStatus(conditions=_CONDITIONS),
    ),
    ImageBuildRequest(
        metadata=_META,
        spec=ImageBuildSpec(context="/src", tags=["tools:1"], args={"A": "b"}),
        status=ImageBuildStatus(
            image_id="sha256:1234",
            progress=BuildProgress(step=1, steps=2, message="COPY"),
            conditions=_CONDITIONS,
        ),
    ),
    Network(
        metadata=_META,
        status=NetworkStatus(
            name="web",
            namespace="moby",
            driver="bridge",
            scope="local",
            subnets=["172.30.0.0/16"],
            gateways=["172.30.0.1"],
            labels={"a": "b"},
            created_at=NOW,
        ),
    ),
    NetworkCreateRequest(
        metadata=_META,
        spec=NetworkCreateSpec(name="web", driver="bridge", labels={"a": "b"}),
        status=NetworkCreateStatus(name="0123abcd", conditions=_CONDITIONS),
    ),
    Resource(
        metadata=ObjectMeta(name="tool"),
        spec=ResourceSpec(
            url="https://files.example/tool", digest=f"sha256:{'0' * 64}", category="tools"
        ),
        status=ResourceStatus(status="cached", digest=f"sha256:{'0' * 64}", size=2_000_000_000),
    ),
    Checkout(
        metadata=_META,
        spec=CheckoutSpec(resource="tool", destination="/tmp/tool", executable=True),
        status=CheckoutStatus(
            local_path="/tmp/tool",
            digest=f"sha256:{'0' * 64}",
            progress="Downloading tool",
            fetched_bytes=1,
            total_bytes=2,
            bytes_per_second=1,
            seconds_left=1,
            conditions=_CONDITIONS,
        ),
    ),
    URLMonitor(
        metadata=ObjectMeta(name="releases"),
        spec=URLMonitorSpec(
            url="https://files.example/releases", method="POST", body="{}", interval="12h"
        ),
        status=URLMonitorStatus(
            last_check=NOW,
            last_status=200,
            last_change=NOW,
            next_check=NOW,
            url="https://files.example/releases",
            etag='"1"',
            digest=f"sha256:{'0' * 64}",
            size=2_000_000,
            local_path="/tmp/releases",
            conditions=_CONDITIONS,
        ),
    ),
    Snapshot(
        metadata=ObjectMeta(name="before"),
        spec=SnapshotSpec(
            scope=SnapshotScope(kind="LimaVM", name="one", namespace="default"),
            description="before the upgrade",
        ),
        status=SnapshotStatus(
            conditions=_CONDITIONS,
            creation_time=NOW,
            size=2_000_000_000,
            method="reflink",
            machines=["one"],
            path="/tmp/snapshots/before",
            progress="copying",
            copied_bytes=1,
            total_bytes=2,
        ),
    ),
    Volume(
        metadata=_META,
        status=VolumeStatus(
            name="data",
            namespace="moby",
            driver="local",
            mountpoint="/var/lib/docker/volumes/data/_data",
            scope="local",
            created_at=NOW,
            labels={"a": "b"},
            options={"type": "tmpfs"},
        ),
    ),
    VolumeCreateRequest(
        metadata=_META,
        spec=VolumeCreateSpec(driver="local", name="data", namespace="moby"),
        status=VolumeCreateStatus(conditions=_CONDITIONS),
    ),
    Notary(
        metadata=_META,
        spec=NotarySpec(value="v", config_map_name="record"),
        status=NotaryStatus(last_recorded_value="v", config_map_status="Updated", change_count=1),
    ),
    ConfigMapReplicaSet(
        metadata=_META,
        spec=ConfigMapReplicaSetSpec(replicas=0, data={"a": "b"}),
        status=ConfigMapReplicaSetStatus(ready_replicas=0, conditions=_CONDITIONS),
    ),
    Diagnostic(
        metadata=ObjectMeta(name="disk"),
        status=DiagnosticStatus(
            conditions=_CONDITIONS, evidence=["/: 0.1 GiB free"], next_step="make room"
        ),
    ),
    HostInfo(
        metadata=ObjectMeta(name="system"),
        spec=HostInfoSpec(),
        status=HostInfoStatus(cpus=8, memory="16Gi"),
    ),
)

SAMPLES: dict[type[Kind], Kind] = {type(sample): sample for sample in _ALL}
