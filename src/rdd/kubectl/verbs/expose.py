# SPDX-License-Identifier: Apache-2.0
"""`expose`: create a Service for a workload, from its labels and ports."""

from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.printers import output
from rdd.kubectl.selection import Ref, fetch, references, require_arguments
from rdd.kubectl.session import Session
from rdd.kubectl.writer import DRY_RUN, Writer, manager

VERB = Verb(
    "expose",
    "(TYPE NAME | TYPE/NAME | -f FILE) [--port=PORT]",
    "Create a Service for a workload",
    flags=(
        *output.FLAGS,
        *manifests.FLAGS,
        DRY_RUN,
        manager("kubectl-expose"),
        Flag("cluster-ip", "cluster IP of the Service, or None"),
        Flag("external-ip", "additional IP address of the Service"),
        Flag("labels", "labels of the Service", short="l"),
        Flag("name", "name of the Service"),
        Flag("port", "port of the Service"),
        Flag("protocol", "TCP, UDP or SCTP"),
        Flag("selector", "label selector for the pods"),
        Flag("target-port", "port of the pods, a number or a name"),
        Flag("type", "ClusterIP, NodePort, LoadBalancer or ExternalName"),
    ),
    unsupported=(
        *manifests.UNSUPPORTED,
        "container-port", "external-name", "generator", "load-balancer-ip", "override-type",
        "overrides", "save-config", "session-affinity",
    ),
)  # fmt: skip


def run(session: Session) -> None:
    require_arguments(session)
    refs = references(session)
    if any(not ref.name for ref in refs):
        raise KubectlError("resource(s) were provided, but no name was specified")
    services = session.resource("services")
    writer = Writer(session)
    for ref in refs:
        service = _service(session, fetch(session, ref))
        target = Ref(services, ref.namespace, service["metadata"]["name"])
        writer.report(writer.create(target, service), "exposed")


def _service(session: Session, workload: Object) -> Object:
    flags = session.flags
    selector = _pairs(flags.text("selector")) or _selector(workload)
    ports = flags.text("port").split(",") if flags.text("port") else _ports(workload)
    if not ports:
        raise KubectlError(
            "couldn't find port via --port flag or introspection\n"
            "See 'kubectl expose -h' for help and examples"
        )
    target = flags.text("target-port")
    protocol = (flags.text("protocol") or "TCP").upper()
    entries: list[Object] = []
    for port in ports:
        entry: Object = {
            "protocol": protocol,
            "port": int(port),
            "targetPort": _number(target or port),
        }
        if len(ports) > 1:
            entry["name"] = f"port-{len(entries) + 1}"
        entries.append(entry)
    metadata = workload["metadata"]
    labels = _pairs(flags.text("labels")) or metadata.get("labels") or {}
    spec: Object = {"selector": selector, "ports": entries}
    for flag, member in (("type", "type"), ("cluster-ip", "clusterIP")):
        if flags.text(flag):
            spec[member] = flags.text(flag)
    if flags.text("external-ip"):
        spec["externalIPs"] = [flags.text("external-ip")]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": flags.text("name") or metadata["name"],
            "namespace": metadata.get("namespace", ""),
            **({"labels": labels} if labels else {}),
        },
        "spec": spec,
    }


def _selector(workload: Object) -> dict[str, str]:
    spec = workload.get("spec") or {}
    if workload.get("kind") == "Pod":
        found = workload["metadata"].get("labels")
    elif workload.get("kind") in ("Service", "ReplicationController"):
        found = spec.get("selector")
    else:
        found = (spec.get("selector") or {}).get("matchLabels")
    if not found:
        raise KubectlError(
            f"couldn't retrieve selectors via --selector flag or introspection:"
            f" the {workload.get('kind', 'object')} has no labels and cannot be exposed"
        )
    return dict(found)


def _ports(workload: Object) -> list[str]:
    spec = workload.get("spec") or {}
    if workload.get("kind") == "Service":
        return [str(p["port"]) for p in spec.get("ports") or ()]
    pod = spec if workload.get("kind") == "Pod" else (spec.get("template") or {}).get("spec") or {}
    return [
        str(port["containerPort"])
        for container in pod.get("containers") or ()
        for port in container.get("ports") or ()
    ]


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise KubectlError(f"unexpected label spec: {part}")
        pairs[key] = value
    return pairs


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
