# SPDX-License-Identifier: Apache-2.0
"""The kinds that Kubernetes' decoder can name in a body, beyond the one that is expected.

A body of another kind is rejected in one of two ways: the kind is not registered,
or it is decoded and cannot be converted. Which one applies depends on the scheme
of the server behind the path: kube-apiserver's has every kind of every group, those
of CustomResourceDefinitions and APIServices only their own group.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from rdd.api import decode, errors, names
from rdd.schema.builtin import notation

_OPTIONS = frozenset(
    (
        *("WatchEvent", "ListOptions", "GetOptions", "DeleteOptions"),
        *("CreateOptions", "UpdateOptions", "PatchOptions"),
    )
)
"""Registered in every version."""
_UNVERSIONED = frozenset(["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"])
"""Recognised whatever the version."""
_OWN_SCHEME = (names.EXTENSIONS_GROUP, names.REGISTRATION_GROUP)
_INTERNAL = {
    "": "core",
    names.EVENTS_GROUP: "core",
    names.RBAC_GROUP: "rbac",
    names.EXTENSIONS_GROUP: "apiextensions",
    names.REGISTRATION_GROUP: "apiregistration",
}
# Kinds of Kubernetes that are not served here; L: there is a list of them, too.
_NOT_SERVED = {
    "v1": (
        "Binding Endpoints LimitRange Node PersistentVolume PersistentVolumeClaim Pod PodTemplate "
        "ReplicationController Service ComponentStatus",
        "List PodStatusResult SerializedReference RangeAllocation PodAttachOptions PodLogOptions "
        "PodExecOptions PodPortForwardOptions PodProxyOptions NodeProxyOptions "
        "ServiceProxyOptions",
    ),
    "apps/v1": ("Deployment StatefulSet DaemonSet ReplicaSet ControllerRevision", ""),
    "batch/v1": ("Job CronJob", ""),
    "autoscaling/v1": ("HorizontalPodAutoscaler", "Scale"),
    "autoscaling/v2": ("HorizontalPodAutoscaler", ""),
    "policy/v1": ("PodDisruptionBudget", "Eviction"),
    "networking.k8s.io/v1": ("Ingress IngressClass NetworkPolicy IPAddress ServiceCIDR", ""),
    "storage.k8s.io/v1": ("StorageClass VolumeAttachment CSIDriver CSINode CSIStorageCapacity", ""),
    "scheduling.k8s.io/v1": ("PriorityClass", ""),
    "discovery.k8s.io/v1": ("EndpointSlice", ""),
    "node.k8s.io/v1": ("RuntimeClass", ""),
    "certificates.k8s.io/v1": ("CertificateSigningRequest", ""),
    "flowcontrol.apiserver.k8s.io/v1": ("FlowSchema PriorityLevelConfiguration", ""),
}


def with_defaults(api_version: str, expected: str) -> str:
    """Return the group and version of a body with those of the path where it has none."""
    group, version = parse(api_version)
    own_group = expected.rpartition("/")[0]
    if not version and group in ("", own_group):
        return expected
    return f"{group}/{version}" if group else version


def parse(api_version: str) -> tuple[str, str]:
    """Return group and version; raise BadRequest if the text has more parts."""
    if api_version in ("", "/"):
        return "", ""
    if api_version.count("/") > 1:
        raise errors.BadRequest(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    return group, version


def is_registered(kind: str, api_version: str, group: str) -> bool:
    """Return whether the server of a group can decode a kind."""
    if kind in _UNVERSIONED:
        return True
    if group in _OWN_SCHEME and parse(api_version)[0] != group:
        return False
    known = _known().get(api_version) or _other().get(api_version)
    return known is not None and (kind in _OPTIONS or kind in known or kind in _all(api_version))


def definition(kind: str, api_version: str) -> str:
    """Return the definition of a kind that is served or the list of one; otherwise empty."""
    return _known().get(api_version, {}).get(kind, "")


def internal_package(group: str) -> str:
    """Return the Go package with the internal types of a group."""
    return _INTERNAL.get(group) or group.partition(".")[0]


def _all(api_version: str) -> frozenset[str]:
    return _other().get(api_version, frozenset())


@cache
def _known() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in notation.names():
        struct = notation.struct(name)
        if struct.kind and ".meta." not in name:
            found.setdefault(struct.api_version, {})[struct.kind] = name
    return found


@cache
def _other() -> dict[str, frozenset[str]]:
    return {
        version: frozenset(
            [*listed.split(), *(f"{kind}List" for kind in listed.split()), *others.split()]
        )
        for version, (listed, others) in _NOT_SERVED.items()
    }


def type_meta(document: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return kind and apiVersion as Kubernetes finds them before it decodes a body.

    This first look ignores the case of names, and the last one in the text wins. Raises
    BadRequest for the first one that is no text.
    """
    found: dict[str, str] = {}
    wrong = ""
    for name, value in document:
        member = _FOLDED.get(name.casefold())
        if member is None or value is None:
            continue
        if type(value) is str:
            found[member] = value
        elif not wrong:
            wrong = (
                f"json: cannot unmarshal {decode.node_kind(value)} into Go struct field "
                f".{member} of type string"
            )
    if wrong:
        raise errors.BadRequest(f"couldn't get version/kind; json parse error: {wrong}")
    return found


def is_type_meta(name: str) -> bool:
    """Return whether the first look at a body takes a member for kind or apiVersion."""
    return name.casefold() in _FOLDED


_FOLDED = {"kind": "kind", "apiversion": "apiVersion"}
