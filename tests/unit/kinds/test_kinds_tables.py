# SPDX-License-Identifier: Apache-2.0
"""The definitions, compared with the published interface row by row.

Each table below lists every field of a kind in a short form:

    string integer/int32 boolean quantity object    type and format
    []T {}T                                         list or map of T
    !                                               required
    ="x"                                            default, as JSON
    <a b>                                           enum
    by=key                                          list type map
    everything else                                 as the schema names it
"""

import json
import re
from typing import Any

import pytest

from rdd.api.types import Object
from rdd.kinds.app import App
from rdd.kinds.catalog import ALL
from rdd.kinds.configmapreplicaset import ConfigMapReplicaSet
from rdd.kinds.container import Container, ContainerCreateRequest
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.crd import definition_of, schema_of
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

Table = dict[str, str]

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]"
    r"|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
DIGESTS = r"^(sha256:[0-9a-fA-F]{64}|sha384:[0-9a-fA-F]{96}|sha512:[0-9a-fA-F]{128})$"
STATES = "<created running pausing paused restarting removing exited dead unknown>"


def conditions(form: str = "[]object by=type") -> Table:
    at = "status.conditions[]"
    return {
        "status.conditions": form,
        f"{at}.type": f"string! maxLength=316 pattern={TYPE}",
        f"{at}.status": "string! <True False Unknown>",
        f"{at}.reason": f"string! maxLength=1024 minLength=1 pattern={REASON}",
        f"{at}.message": "string! maxLength=32768",
        f"{at}.lastTransitionTime": "string/date-time!",
        f"{at}.observedGeneration": "integer/int64 minimum=0",
    }


def ports(at: str) -> Table:
    return {
        at: "[]object by=name",
        f"{at}[].name": "string!",
        f"{at}[].bindings": "[]object",
        f"{at}[].bindings[].hostIP": "string!",
        f"{at}[].bindings[].hostPort": "string!",
    }


LIMITS: Table = {
    "status.resourceLimits": "object",
    "status.resourceLimits.mode": "string",
    "status.resourceLimits.cpus": "integer",
    "status.resourceLimits.memory": "quantity",
    "status.resourceLimits.message": "string",
}

GUEST_MEMORY: Table = {
    "status.guestMemory": "object",
    "status.guestMemory.used": "quantity",
    "status.guestMemory.host": "quantity",
}

IDLE: Table = {
    "spec.idle": "object",
    "spec.idle.action": 'string ="none" <none pause suspend stop>',
    "spec.idle.afterSeconds": "integer =300 maximum=604800 minimum=1",
    "spec.idle.cpuPercent": "integer =5 maximum=100 minimum=1",
    "spec.idle.networkBytesPerSecond": "integer =1024 maximum=1073741824 minimum=0",
}

FAILURE: Table = {
    "status.failure": "object",
    "status.failure.reason": "string!",
    "status.failure.remedy": "string",
}

PROGRESS: Table = {
    "status.progress": "object",
    "status.progress.current": "integer/int64",
    "status.progress.total": "integer/int64",
    "status.progress.layers": "integer",
    "status.progress.layersDone": "integer",
    "status.progress.message": "string",
}
"""Members of transfers in addition to the published interface."""

TABLES: dict[type[Kind], Table] = {
    App: {
        "": "object rule[self.metadata.name == 'app' → App resource must be named 'app']",
        "spec": "object",
        "spec.running": "boolean!",
        "spec.namespace": 'string ="default" rule[self == oldSelf → spec.namespace is immutable]',
        "spec.containerEngine": 'object ={"name": "moby"}',
        "spec.containerEngine.name": 'string! ="moby" <moby containerd>',
        "spec.containerEngine.version": "string",
        "spec.containerEngine.logs": "object",
        "spec.containerEngine.logs.maxSize": 'string ="20m" pattern=^[1-9][0-9]{0,8}[kmg]$',
        "spec.containerEngine.logs.maxFiles": "integer =5 maximum=100 minimum=1",
        "spec.kubernetes": "object",
        "spec.kubernetes.enabled": "boolean!",
        "spec.kubernetes.version": "string",
        "spec.virtualMachine": "object",
        "spec.virtualMachine.cpus": "integer",
        "spec.virtualMachine.memory": "quantity",
        "spec.virtualMachine.disk": "quantity",
        "spec.virtualMachine.type": "string <auto lima qemu host>",
        "spec.proxy": "object",
        "spec.proxy.httpProxy": "string",
        "spec.proxy.httpsProxy": "string",
        "spec.proxy.noProxy": "[]string",
        "spec.certificates": "object",
        "spec.certificates.authorities": "[]string",
        "spec.registries": "object",
        "spec.registries.mirrors": "[]object by=registry",
        "spec.registries.mirrors[].registry": "string!",
        "spec.registries.mirrors[].endpoints": "[]string!",
        "spec.registries.insecure": "[]string",
        "spec.downloads": "object",
        "spec.downloads.automatic": "boolean",
        "spec.downloads.mirror": "string",
        **IDLE,
        "spec.application": 'object ={"updates": {"enabled": true}}',
        "spec.application.updates": 'object ={"enabled": true}',
        "spec.application.updates.enabled": "boolean =true",
        "status": "object",
        "status.kubernetesPort": "integer",
        "status.virtualMachineType": "string",
        "status.passedOver": "[]string",
        **LIMITS,
        **FAILURE,
        **conditions(),
    },
    Demo: {
        "": "object rule[self.metadata.name == 'demo' → Demo resource must be named 'demo']",
        "spec": "object",
        "spec.message": "string",
        "spec.count": "integer/int32",
        "spec.namespace": 'string ="default"',
        "status": "object",
        "status.processedCount": "integer/int32",
        "status.lastProcessed": "string",
        **conditions(),
    },
    Diagnostic: {
        "": "object",
        "status": "object",
        "status.evidence": "[]string",
        "status.nextStep": "string",
        **conditions(),
    },
    LimaVM: {
        "": "object",
        "spec": "object!",
        "spec.running": "boolean! =false",
        "spec.templateRef": "object! rule[self == oldSelf → templateRef is immutable]",
        "spec.templateRef.name": "string!",
        "spec.templateRef.namespace": "string",
        "spec.params": "{}string",
        **IDLE,
        "status": "object",
        "status.observedGeneration": "integer/int64",
        "status.templateConfigMap": "string",
        "status.observedTemplateResourceVersion": "string",
        "status.restartNeeded": "boolean",
        "status.restartCount": "integer/int32",
        "status.heldBy": "string",
        **LIMITS,
        **GUEST_MEMORY,
        **FAILURE,
        "status.unavailablePorts": "[]integer",
        **conditions(),
    },
    Container: {
        "": "object",
        "spec": "object",
        "status": "object",
        "status.name": "string!",
        "status.namespace": "string!",
        "status.path": "string!",
        "status.image": "string!",
        "status.imageName": "string",
        "status.portSummary": "string",
        "status.volumes": "[]string",
        "status.networks": "[]string",
        "status.health": "string <starting healthy unhealthy>",
        "status.status": f'string! ="unknown" {STATES}',
        "status.args": "[]string",
        "status.labels": "{}string",
        **ports("status.ports"),
        "status.pid": "integer/int32",
        "status.exitCode": "integer/int32",
        "status.error": "string",
        "status.createdAt": "string/date-time",
        "status.startedAt": "string/date-time",
        "status.finishedAt": "string/date-time",
        "status.lastAction": "object",
        "status.lastAction.action": "string! <start stop pause unpause restart>",
        "status.lastAction.state": "string! <Succeeded Failed>",
        "status.lastAction.error": "string",
        "status.lastAction.observedAt": "string/date-time",
        "status.lastAction.completedAt": "string/date-time",
        **conditions(),
    },
    ContainerCreateRequest: {
        "": "object",
        "spec": "object!",
        "spec.image": "string!",
        "spec.state": f'string! ="running" all{STATES} all<created running>',
        "spec.name": "string",
        "spec.namespace": "string",
        "spec.path": "string",
        "spec.args": "[]string",
        "spec.labels": "{}string",
        **ports("spec.ports"),
        "status": "object",
        "status.name": "string",
        **conditions(),
    },
    ContainerNamespace: {"": "object"},
    Image: {
        "": "object",
        "status": "object",
        "status.namespace": "string!",
        "status.id": "string!",
        "status.architecture": "string!",
        "status.os": "string!",
        "status.size": "integer/int64!",
        "status.readableSize": "string",
        "status.repoTag": "string",
        "status.repoDigests": "[]string",
        "status.createdAt": "string/date-time",
        "status.labels": "{}string",
        **conditions(),
    },
    ImagePullRequest: {
        "": "object",
        "spec": "object!",
        "spec.repoTag": "string!",
        "spec.namespace": "string",
        "status": "object",
        **conditions(),
        **PROGRESS,
    },
    ImagePushRequest: {
        "": "object",
        "spec": "object!",
        "spec.imageRef": "string!",
        "status": "object",
        **conditions(),
        **PROGRESS,
    },
    ImageScanRequest: {
        "": "object",
        "spec": "object!",
        "spec.imageRef": "string!",
        "status": "object",
        "status.result": "string",
        **conditions(),
    },
    Volume: {
        "": "object",
        "status": "object",
        "status.name": "string!",
        "status.namespace": "string!",
        "status.driver": "string!",
        "status.mountpoint": "string!",
        "status.scope": "string!",
        "status.createdAt": "string/date-time!",
        "status.labels": "{}string",
        "status.options": "{}string",
    },
    Network: {
        "": "object",
        "status": "object",
        "status.name": "string!",
        "status.namespace": "string!",
        "status.driver": "string!",
        "status.scope": "string!",
        "status.internal": "boolean",
        "status.ipv6": "boolean",
        "status.subnets": "[]string",
        "status.gateways": "[]string",
        "status.labels": "{}string",
        "status.createdAt": "string/date-time",
    },
    NetworkCreateRequest: {
        "": "object",
        "spec": "object!",
        "spec.name": "string! maxLength=255 minLength=1",
        "spec.driver": 'string! ="bridge"',
        "spec.internal": "boolean",
        "spec.ipv6": "boolean",
        "spec.subnet": "string",
        "spec.gateway": "string",
        "spec.labels": "{}string",
        "spec.namespace": "string",
        "status": "object",
        "status.name": "string",
        **conditions(),
    },
    ImageBuildRequest: {
        "": "object",
        "spec": "object!",
        "spec.context": "string! maxLength=4096 minLength=1",
        "spec.tags": "[]string maxItems=32",
        "spec.dockerfile": "string",
        "spec.target": "string",
        "spec.args": "{}string",
        "spec.noCache": "boolean",
        "spec.pull": "boolean",
        "status": "object",
        **conditions(),
        "status.imageId": "string",
        "status.progress": "object",
        "status.progress.step": "integer/int32",
        "status.progress.steps": "integer/int32",
        "status.progress.message": "string",
    },
    ImageTagRequest: {
        "": "object",
        "spec": "object!",
        "spec.imageRef": "string!",
        "spec.repoTag": "string!",
        "status": "object",
        **conditions(),
    },
    VolumeCreateRequest: {
        "": "object",
        "spec": "object!",
        "spec.driver": "string!",
        "spec.name": "string",
        "spec.namespace": "string",
        "status": "object",
        **conditions(),
    },
    Notary: {
        "": "object",
        "spec": "object",
        "spec.value": "string!",
        "spec.configMapName": "string!",
        "status": "object",
        "status.lastRecordedValue": "string",
        "status.configMapStatus": "string",
        "status.changeCount": "integer",
    },
    ConfigMapReplicaSet: {
        "": "object",
        "spec": "object",
        "spec.replicas": "integer/int32",
        "spec.data": "{}string",
        "status": "object",
        "status.readyReplicas": "integer/int32!",
        **conditions("[]object"),
    },
    HostInfo: {
        "": "object",
        "spec": "object",
        "status": "object",
        "status.cpus": "integer",
        "status.memory": "quantity",
    },
    Resource: {
        "": "object",
        "spec": "object! rule[has(self.digest) || has(self.checksumURL) → "
        "a digest or a checksumURL is required: files without a checksum are not fetched] "
        "rule[!has(self.signature) || self.signature.of != 'checksums' || "
        "(has(self.checksumURL) && !has(self.digest)) → "
        "a signature of the checksums needs a checksumURL and no digest] "
        "rule[!has(self.signature) || has(self.signature.key) || has(self.signature.keyURL) → "
        "a signature needs a key or a keyURL] "
        "rule[has(self.signature) == has(oldSelf.signature) && "
        "(!has(self.signature) || self.signature == oldSelf.signature) → "
        "the signature of a Resource cannot change: its digest may be pinned already]",
        "spec.url": "string! pattern=^(https?|file)://.+",
        "spec.digest": f"string pattern={DIGESTS}",
        "spec.checksumURL": "string pattern=^https?://.+",
        "spec.signature": "object",
        "spec.signature.url": "string! pattern=^https?://.+",
        "spec.signature.key": "string maxLength=262144 minLength=40",
        "spec.signature.keyURL": "string pattern=^https?://.+",
        "spec.signature.of": 'string ="file" <file checksums>',
        "spec.category": "string",
        "status": "object",
        "status.status": "string <available cached>",
        "status.digest": "string",
        "status.size": "integer/int64",
    },
    Checkout: {
        "": "object",
        "spec": "object! rule[self == oldSelf → a Checkout cannot change; create another one] "
        "rule[has(self.destination) || (has(self.readonly) && self.readonly) → "
        "a Checkout without a destination must be readonly: it is the file of the cache] "
        "rule[!has(self.executable) || !self.executable || has(self.destination) → "
        "an executable file needs a destination: files of the cache are not executable]",
        "spec.resource": "string!",
        "spec.destination": "string pattern=^/.*[^/]$",
        "spec.readonly": "boolean",
        "spec.executable": "boolean",
        "status": "object",
        "status.localPath": "string",
        "status.digest": "string",
        "status.progress": "string",
        "status.fetchedBytes": "integer/int64",
        "status.totalBytes": "integer/int64",
        "status.bytesPerSecond": "integer/int64",
        "status.secondsLeft": "integer",
        **conditions(),
    },
    URLMonitor: {
        "": "object",
        "spec": "object! rule[!has(self.body) || self.method == 'POST' → "
        "only the method POST has a body]",
        "spec.url": r"string! maxLength=2048 pattern=^https?://[^\s/?#]+([/?#]\S*)?$",
        "spec.method": 'string ="GET" <GET HEAD POST>',
        "spec.body": "string maxLength=65536",
        "spec.interval": 'string ="24h" maxLength=32 '
        r"pattern=^([0-9]{1,6}(\.[0-9]{1,3})?(h|m|s))+$ "
        "rule[duration(self) >= duration('1m') && duration(self) <= duration('8760h') → "
        "must be between 1m and 8760h (a year)]",
        "spec.nextCheck": "string/date-time",
        "spec.suspended": "boolean",
        "status": "object",
        "status.lastCheck": "string/date-time",
        "status.lastStatus": "integer",
        "status.lastChange": "string/date-time",
        "status.nextCheck": "string/date-time",
        "status.url": "string",
        "status.etag": "string",
        "status.lastModified": "string",
        "status.digest": "string",
        "status.size": "integer/int64",
        "status.localPath": "string",
        **conditions(),
    },
    Snapshot: {
        "": "object rule[size(self.metadata.name) <= 63 → "
        "the name of a Snapshot has at most 63 characters]",
        "spec": "object!",
        "spec.scope": "object! rule[self == oldSelf → "
        "the scope of a snapshot cannot change; create another one] "
        "rule[(self.kind in ['LimaVM', 'Namespace']) == (has(self.name) && self.name != '') → "
        "a name is required for LimaVM and Namespace, and for nothing else] "
        "rule[self.kind == 'LimaVM' || !has(self.__namespace__) → "
        "only a LimaVM has a namespace]",
        "spec.scope.kind": "string! <App LimaVM Namespace Instance>",
        "spec.scope.name": "string",
        "spec.scope.namespace": "string",
        "spec.description": "string",
        "status": "object",
        "status.creationTime": "string/date-time",
        "status.size": "integer/int64",
        "status.method": "string",
        "status.machines": "[]string",
        "status.path": "string",
        "status.progress": "string",
        "status.copiedBytes": "integer/int64",
        "status.totalBytes": "integer/int64",
        "status.restoreRequest": "string",
        **conditions(),
    },
}

_SHOWN = {"type", "format", "properties", "items", "additionalProperties", "required"}
_SHOWN |= {"default", "enum", "allOf", "description", "x-kubernetes-list-type"}
_SHOWN |= {"x-kubernetes-list-map-keys", "x-kubernetes-validations"}


def form(schema: Object) -> str:
    """Return the type of a schema in the notation of the tables."""
    if "x-kubernetes-int-or-string" in schema:
        types = [{"type": "integer"}, {"type": "string"}]
        assert (schema["pattern"], schema["anyOf"]) == (QUANTITY, types)
        assert schema["x-kubernetes-int-or-string"] is True
        assert schema.keys() - {"description"} == {
            "pattern",
            "anyOf",
            "x-kubernetes-int-or-string",
        }
        return "quantity"
    if schema["type"] == "array":
        return f"[]{form(schema['items'])}"
    if "additionalProperties" in schema:
        return "{}" + form(schema["additionalProperties"])
    return "/".join(filter(None, (schema["type"], schema.get("format"))))


def row(schema: Object, required: bool) -> str:
    """Return a schema without its members in the notation of the tables."""
    parts = [form(schema) + ("!" if required else "")]
    if parts[0].startswith("quantity"):
        return parts[0]
    if "default" in schema:
        parts.append("=" + json.dumps(schema["default"]))
    if "enum" in schema:
        parts.append(f"<{' '.join(schema['enum'])}>")
    parts += [f"all<{' '.join(part['enum'])}>" for part in schema.get("allOf", ())]
    if schema.get("x-kubernetes-list-type") == "map":
        parts.append("by=" + ",".join(schema["x-kubernetes-list-map-keys"]))
    parts += [f"{key}={schema[key]}" for key in sorted(schema.keys() - _SHOWN)]
    for rule in schema.get("x-kubernetes-validations", ()):
        assert rule.keys() == {"rule", "message"}
        parts.append(f"rule[{rule['rule']} → {rule['message']}]")
    return " ".join(parts)


def table(schema: Object, path: str = "", required: bool = False) -> Table:
    """Return all fields of a schema in the notation of the tables."""
    found = {path: row(schema, required)}
    inner, at = (schema["items"], f"{path}[]") if "items" in schema else (schema, path)
    for name, sub in inner.get("properties", {}).items():
        if path or name not in ("apiVersion", "kind", "metadata"):
            below = f"{at}.{name}" if at else name
            found |= table(sub, below, name in inner.get("required", ()))
    return found


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_schema_is_the_published_one(kind: type[Kind]) -> None:
    schema = schema_of(kind)
    assert table(schema) == TABLES[kind]
    assert schema["properties"]["apiVersion"]["type"] == "string"
    assert schema["properties"]["kind"]["type"] == "string"
    assert schema["properties"]["metadata"] == {"type": "object"}


def columns(*rows: tuple[str, ...]) -> list[Object]:
    names = ("name", "type", "jsonPath", "format")
    return [dict(zip(names, row, strict=False)) for row in rows]


def wide(*rows: tuple[str, ...]) -> list[Object]:
    return [{**column, "priority": 1} for column in columns(*rows)]


AGE = ("Age", "date", ".metadata.creationTimestamp")
APP, LIMA = "app.rancherdesktop.io", "lima.rancherdesktop.io"
CONTAINERS, RDD = "containers.rancherdesktop.io", "rdd.rancherdesktop.io"
HEALTHY = '.status.conditions[?(@.type=="Healthy")].{}'
SETTLED = '.status.conditions[?(@.type=="Settled")].{}'
RUNNING = '.status.conditions[?(@.type=="Running")].status'
PAUSED = '.status.conditions[?(@.type=="Paused")].status'

# group, plural, scope, short names, categories, columns, selectable fields, controller annotation
OVERVIEW: dict[type[Kind], tuple[Any, ...]] = {
    App: (
        *(APP, "apps", "Cluster", [], ["all"]),
        [
            *columns(
                ("Running", "string", RUNNING),
                ("Settled", "string", SETTLED.format("status")),
                ("Engine", "string", ".spec.containerEngine.name"),
                ("Kubernetes", "string", '.status.conditions[?(@.type=="KubernetesReady")].reason'),
                AGE,
            ),
            *wide(
                ("Type", "string", ".status.virtualMachineType"),
                ("Message", "string", SETTLED.format("message")),
                ("Paused", "string", PAUSED),
            ),
        ],
        *([], None),
    ),
    Demo: (APP, "demos", "Cluster", [], [], [], [], None),
    Diagnostic: (
        *(APP, "diagnostics", "Cluster", [], ["all"]),
        columns(
            ("Healthy", "string", HEALTHY.format("status")),
            ("Reason", "string", HEALTHY.format("reason")),
            ("Next step", "string", ".status.nextStep"),
        ),
        *([], None),
    ),
    LimaVM: (
        *(LIMA, "limavms", "Namespaced", [], ["all"]),
        [
            *columns(
                ("Running", "boolean", ".spec.running"),
                ("State", "string", RUNNING.replace("].status", "].reason")),
                ("Starts", "integer", ".status.restartCount"),
                AGE,
            ),
            *wide(
                ("Message", "string", RUNNING.replace("].status", "].message")),
                ("Paused", "string", PAUSED),
            ),
        ],
        *([], None),
    ),
    Container: (
        *(CONTAINERS, "containers", "Namespaced", [], ["all"]),
        [
            *columns(
                ("Running", "string", RUNNING),
                ("Container", "string", ".status.name"),
                ("Image", "string", ".status.imageName"),
                ("State", "string", ".status.status"),
                ("Health", "string", ".status.health"),
                ("Ports", "string", ".status.portSummary"),
                ("Created", "date", ".status.createdAt"),
            ),
            *wide(
                ("Image-ID", "string", ".status.image"),
                ("Namespace", "string", ".status.namespace"),
            ),
        ],
        *([".status.namespace"], None),
    ),
    ContainerCreateRequest: (
        *(CONTAINERS, "containercreaterequests", "Namespaced", [], [], []),
        *([".spec.namespace"], "container"),
    ),
    ContainerNamespace: (
        *(CONTAINERS, "containernamespaces", "Namespaced", ["cns"], ["all"], [], [], None),
    ),
    Image: (
        *(CONTAINERS, "images", "Namespaced", [], ["all"]),
        [
            *columns(
                ("Tag", "string", ".status.repoTag"),
                ("Created", "date", ".status.createdAt"),
                ("Size", "integer", ".status.size", "byte"),
                ("Readable-Size", "string", ".status.readableSize"),
            ),
            *wide(
                ("Image-ID", "string", ".status.id"),
                ("Platform", "string", ".status.architecture"),
            ),
        ],
        *([".status.namespace", ".status.id", ".status.repoTag"], None),
    ),
    ImagePullRequest: (
        *(CONTAINERS, "imagepullrequests", "Namespaced", [], [], []),
        *([".spec.namespace"], "image"),
    ),
    ImagePushRequest: (CONTAINERS, "imagepushrequests", "Namespaced", [], [], [], [], "image"),
    ImageScanRequest: (CONTAINERS, "imagescanrequests", "Namespaced", [], [], [], [], "image"),
    ImageBuildRequest: (CONTAINERS, "imagebuildrequests", "Namespaced", [], [], [], [], "image"),
    ImageTagRequest: (CONTAINERS, "imagetagrequests", "Namespaced", [], [], [], [], "image"),
    Network: (
        *(CONTAINERS, "networks", "Namespaced", [], ["all"]),
        columns(
            ("Network", "string", ".status.name"),
            ("Driver", "string", ".status.driver"),
            ("Scope", "string", ".status.scope"),
            ("Subnets", "string", ".status.subnets"),
            ("Created", "date", ".status.createdAt"),
        ),
        *([".status.namespace", ".status.name"], None),
    ),
    NetworkCreateRequest: (
        *(CONTAINERS, "networkcreaterequests", "Namespaced", [], [], [], [], "network"),
    ),
    Volume: (
        *(CONTAINERS, "volumes", "Namespaced", [], ["all"]),
        [
            *columns(
                ("Driver", "string", ".status.driver"),
                ("Volume", "string", ".status.name"),
                ("Created", "date", ".status.createdAt"),
            ),
            *wide(("Mountpoint", "string", ".status.mountpoint")),
        ],
        *([".status.namespace", ".status.name"], None),
    ),
    VolumeCreateRequest: (
        *(CONTAINERS, "volumecreaterequests", "Namespaced", [], [], [], [], "volume"),
    ),
    Notary: (RDD, "notaries", "Namespaced", [], [], [], [], None),
    ConfigMapReplicaSet: (RDD, "configmapreplicasets", "Namespaced", ["cmrs"], [], [], [], None),
    HostInfo: (
        *(RDD, "hostinfos", "Cluster", [], ["all"]),
        columns(("CPUs", "integer", ".status.cpus"), ("Memory", "string", ".status.memory")),
        *([], None),
    ),
    Resource: (
        *(RDD, "resources", "Cluster", [], []),
        [
            *columns(
                ("Category", "string", ".spec.category"),
                ("Status", "string", ".status.status"),
                ("Size", "integer", ".status.size", "byte"),
            ),
            *wide(("URL", "string", ".spec.url")),
        ],
        *([".spec.category", ".status.status"], "resource"),
    ),
    Checkout: (
        *(RDD, "checkouts", "Namespaced", [], []),
        [
            *columns(
                ("Resource", "string", ".spec.resource"),
                ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
                ("Progress", "string", ".status.progress"),
            ),
            *wide(("Path", "string", ".status.localPath")),
        ],
        *([], "resource"),
    ),
    URLMonitor: (
        *(RDD, "urlmonitors", "Cluster", [], []),
        columns(
            ("URL", "string", ".spec.url"),
            ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
            ("Last Check", "date", ".status.lastCheck"),
            ("Last Change", "date", ".status.lastChange"),
        ),
        *([], "urlmonitor"),
    ),
    Snapshot: (
        *(RDD, "snapshots", "Cluster", [], []),
        [
            *columns(
                ("Scope", "string", ".spec.scope.kind"),
                ("Of", "string", ".spec.scope.name"),
                ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
                ("Size", "integer", ".status.size", "byte"),
                ("Created", "date", ".status.creationTime"),
            ),
            *wide(
                ("Description", "string", ".spec.description"),
                ("Message", "string", '.status.conditions[?(@.type=="Ready")].message'),
            ),
        ],
        *([], "snapshot"),
    ),
}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_definition_is_the_published_one(kind: type[Kind]) -> None:
    crd = definition_of(kind)
    group, plural, scope, short_names, categories, columns, selectable, owner = OVERVIEW[kind]
    spec = crd["spec"]
    (version,) = spec["versions"]
    name = kind.__name__
    assert (crd["apiVersion"], crd["kind"]) == (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    )
    assert crd["metadata"]["name"] == f"{plural}.{group}"
    annotations = {"controller-gen.kubebuilder.io/version": "v0.19.0"}
    if owner:
        annotations["rdd.rancherdesktop.io/controller"] = owner
    assert crd["metadata"]["annotations"] == annotations
    assert (spec["group"], spec["scope"]) == (group, scope)
    names = {"kind": name, "listKind": f"{name}List", "plural": plural, "singular": name.lower()}
    names |= {"shortNames": short_names} if short_names else {}
    names |= {"categories": categories} if categories else {}
    assert spec["names"] == names
    assert spec["conversion"] == {"strategy": "None"}
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version.get("additionalPrinterColumns", []) == columns
    assert [field["jsonPath"] for field in version.get("selectableFields", [])] == selectable
    has_status = kind is not ContainerNamespace
    assert version.get("subresources") == ({"status": {}} if has_status else None)


def descriptions(schema: Object, path: str) -> dict[str, str]:
    found = {path: schema["description"]}
    for name, sub in (schema.get("items") or schema).get("properties", {}).items():
        if name != "metadata":
            found |= descriptions(sub, f"{path}.{name}")
    return found


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_every_field_has_a_description_with_a_complete_first_sentence(kind: type[Kind]) -> None:
    for path, text in descriptions(schema_of(kind), kind.kind).items():
        first = re.split(r"(?<=\.)\s", text)[0]
        assert text.endswith("."), path
        assert text[0].isupper(), path
        assert not re.search(r"\b(e\.g|i\.e)\.", text), f"{path}: ends a sentence too early"
        # The property table of `rdd set --help` wraps longer sentences over many lines.
        assert 5 <= len(first) <= 125, path
