# SPDX-License-Identifier: Apache-2.0
"""All kinds, by the controller that installs them.

The list is explicit: nothing registers itself on import. Controllers without kinds of their own
(engine, kubernetes, k3s-versions, the built-in ones) are not in it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rdd.kinds.app import App
from rdd.kinds.configmapreplicaset import ConfigMapReplicaSet
from rdd.kinds.container import Container, ContainerCreateRequest
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.crd import definition_of
from rdd.kinds.demo import Demo
from rdd.kinds.diagnostic import Diagnostic
from rdd.kinds.hostinfo import HostInfo
from rdd.kinds.image import (
    Image,
    ImageBuildRequest,
    ImagePullRequest,
    ImagePushRequest,
    ImageScanRequest,
    ImageTagRequest,
)
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import LimaVM
from rdd.kinds.network import Network, NetworkCreateRequest
from rdd.kinds.notary import Notary
from rdd.kinds.resource import Checkout, Resource
from rdd.kinds.snapshot import Snapshot
from rdd.kinds.urlmonitor import URLMonitor
from rdd.kinds.volume import Volume, VolumeCreateRequest

Kinds = tuple[type[Kind], ...]

_OF_CONTROLLERS: dict[str, Kinds] = {
    "app": (App,),
    "demo": (Demo,),
    "diagnostics": (Diagnostic,),
    "limavm": (LimaVM,),
    "container": (Container, ContainerCreateRequest),
    "containernamespace": (ContainerNamespace,),
    "image": (
        Image,
        ImagePullRequest,
        ImagePushRequest,
        ImageScanRequest,
        ImageBuildRequest,
        ImageTagRequest,
    ),
    "network": (Network, NetworkCreateRequest),
    "volume": (Volume, VolumeCreateRequest),
    "notary": (Notary,),
    "configmapreplicaset": (ConfigMapReplicaSet,),
    "hostinfo": (HostInfo,),
    "resource": (Resource, Checkout),
    "urlmonitor": (URLMonitor,),
    "snapshot": (Snapshot,),
}

ALL: Kinds = tuple(kind for kinds in _OF_CONTROLLERS.values() for kind in kinds)
"""Every kind of the project."""

BY_CONTROLLER: Mapping[str, Kinds] = MappingProxyType({**_OF_CONTROLLERS, "mock": ALL})
"""The kinds each controller installs; the mock controller replaces all others."""


def kinds_of(*controllers: str) -> Kinds:
    """Return the kinds that some controllers install, without duplicates."""
    found = [kind for name in controllers for kind in BY_CONTROLLER.get(name, ())]
    return tuple(dict.fromkeys(found))


def crds_of(*controllers: str) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions that some controllers install, without duplicates."""
    return [definition_of(kind) for kind in kinds_of(*controllers)]
