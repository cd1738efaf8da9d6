# SPDX-License-Identifier: Apache-2.0
"""`rollout status|restart` of Deployments, DaemonSets and StatefulSets."""

import time
from collections.abc import Callable

from rdd.api.errors import ApiError
from rdd.api.mediatypes import STRATEGIC_MERGE_PATCH
from rdd.api.types import Object
from rdd.base.pflag import Flag
from rdd.kubectl import manifests
from rdd.kubectl.errors import KubectlError, unsupported
from rdd.kubectl.flags import Verb
from rdd.kubectl.selection import Ref, for_each, references, require_arguments
from rdd.kubectl.session import Session
from rdd.kubectl.writer import manager

Reporter = Callable[[Object], tuple[str, bool]]

_DEFAULT_TIMEOUT_S = 7 * 24 * 3600

VERBS = {
    "status": Verb(
        "status",
        "(TYPE NAME | TYPE/NAME | -f FILE)",
        "Wait until a rollout is complete",
        flags=(
            *manifests.FLAGS,
            Flag("revision", "revision to watch; 0 means the latest", "int", default="0"),
            Flag("timeout", "maximum time to wait; 0 means no limit", "duration", default="0"),
            Flag("watch", "wait until it is complete", "bool", default="true", short="w"),
        ),
        unsupported=(*manifests.UNSUPPORTED, "selector"),
    ),
    "restart": Verb(
        "restart",
        "(TYPE NAME… | TYPE/NAME… | -f FILE)",
        "Restart the pods of a workload",
        flags=(*manifests.FLAGS, manager("kubectl-rollout")),
        unsupported=(*manifests.UNSUPPORTED, "selector", "output"),
    ),
}
UNSUPPORTED = ("history", "pause", "resume", "undo")


def run(session: Session, name: str) -> None:
    if not name:
        return
    require_arguments(session)
    refs = references(session)
    if any(not ref.name for ref in refs):
        raise KubectlError("resource(s) were provided, but no name was specified")
    if name == "restart":
        for_each(refs, lambda ref: _restart(session, ref))
        return
    if session.flags.integer("revision"):
        raise unsupported("a revision other than the latest")
    for_each(refs, lambda ref: _status(session, ref))


def _restart(session: Session, ref: Ref) -> None:
    _reporter(ref)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    annotations = {"kubectl.kubernetes.io/restartedAt": stamp}
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    query = {"fieldManager": session.flags.text("field-manager")}
    session.api.request(
        "PATCH", ref.path, query=query, body=patch, content_type=STRATEGIC_MERGE_PATCH
    )
    session.print(f"{ref.printed} restarted")


def _status(session: Session, ref: Ref) -> None:
    report = _reporter(ref)
    timeout = session.flags.seconds("timeout") or _DEFAULT_TIMEOUT_S
    deadline = time.monotonic() + timeout
    collection = ref._replace(name="").path
    query = {"fieldSelector": f"metadata.name={ref.name}"}
    obj: Object = session.api.get(ref.path)
    printed = ""
    while True:
        text, is_done = report(obj)
        if text != printed:
            session.out.write(text)
            session.out.flush()
            printed = text
        if is_done or not session.flags.truth("watch"):
            return
        if time.monotonic() >= deadline:
            raise KubectlError("timed out waiting for the condition")
        query["resourceVersion"] = obj["metadata"].get("resourceVersion", "")
        try:
            for event in session.api.watch(collection, query, deadline=deadline):
                if event["type"] == "DELETED":
                    raise KubectlError("object has been deleted")
                if event["type"] in ("ADDED", "MODIFIED"):
                    obj = event["object"]
                    break
        except ApiError as error:
            if error.code != 410:
                raise
            obj = session.api.get(ref.path)


def _reporter(ref: Ref) -> Reporter:
    reporters: dict[str, Reporter] = {
        "Deployment": _deployment,
        "DaemonSet": _daemon_set,
        "StatefulSet": _stateful_set,
    }
    found = reporters.get(ref.resource.kind)
    if found is None or ref.resource.group != "apps":
        raise KubectlError(f"no status viewer has been implemented for {ref.resource.kind}")
    return found


def _deployment(obj: Object) -> tuple[str, bool]:
    name, spec, status = obj["metadata"]["name"], obj.get("spec") or {}, obj.get("status") or {}
    if obj["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        return "Waiting for deployment spec update to be observed...\n", False
    for condition in status.get("conditions") or ():
        if condition.get("reason") == "ProgressDeadlineExceeded":
            raise KubectlError(f'deployment "{name}" exceeded its progress deadline')
    wanted, updated = spec.get("replicas", 1), status.get("updatedReplicas", 0)
    total, available = status.get("replicas", 0), status.get("availableReplicas", 0)
    start = f'Waiting for deployment "{name}" rollout to finish: '
    if updated < wanted:
        return f"{start}{updated} out of {wanted} new replicas have been updated...\n", False
    if total > updated:
        return f"{start}{total - updated} old replicas are pending termination...\n", False
    if available < updated:
        return f"{start}{available} of {updated} updated replicas are available...\n", False
    return f'deployment "{name}" successfully rolled out\n', True


def _daemon_set(obj: Object) -> tuple[str, bool]:
    name, status = obj["metadata"]["name"], obj.get("status") or {}
    if obj["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        return "Waiting for daemon set spec update to be observed...\n", False
    wanted, updated = (
        status.get("desiredNumberScheduled", 0),
        status.get("updatedNumberScheduled", 0),
    )
    available = status.get("numberAvailable", 0)
    start = f'Waiting for daemon set "{name}" rollout to finish: '
    if updated < wanted:
        return f"{start}{updated} out of {wanted} new pods have been updated...\n", False
    if available < wanted:
        return f"{start}{available} of {wanted} updated pods are available...\n", False
    return f'daemon set "{name}" successfully rolled out\n', True


def _stateful_set(obj: Object) -> tuple[str, bool]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    observed = status.get("observedGeneration", 0)
    if not observed or obj["metadata"].get("generation", 0) > observed:
        return "Waiting for statefulset spec update to be observed...\n", False
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    if ready < wanted:
        return f"Waiting for {wanted - ready} pods to be ready...\n", False
    revision = status.get("updateRevision", "")
    if revision != status.get("currentRevision"):
        updated = status.get("updatedReplicas", 0)
        return (
            "waiting for statefulset rolling update to complete"
            f" {updated} pods at revision {revision}...\n",
            False,
        )
    done = status.get("currentReplicas", 0)
    return f"statefulset rolling update complete {done} pods at revision {revision}...\n", True
