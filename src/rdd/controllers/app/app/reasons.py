# SPDX-License-Identifier: Apache-2.0
"""The reasons of Settled, RestartPending, DiskPressure and KubernetesReady of the App.

Other programs match reasons and messages, so the controllers `app`, `diagnostics` and `kubernetes`
create every condition from this table. docs/app.md contains it; to update the page:

    python -m rdd.controllers.app.app docs/app.md

The conditions mirrored from the LimaVM (Created, Running, Degraded, Paused and those of clock and
memory) are in `controllers/lima/limavm/reasons.py`, ContainerEngineReady is in
`controllers/containers/engine/reasons.py`.
"""

from typing import Final

from rdd.api.names import DISK_PRESSURE, KUBERNETES_READY, RESTART_PENDING, SETTLED
from rdd.runtime.conditions import FORWARDED, Condition, Reason, ReasonTable

MARKER: Final = "<!-- Below this line: python -m rdd.controllers.app.app docs/app.md -->"
"""Everything after it in docs/app.md is generated."""

REASONS: Final = ReasonTable(
    Reason(SETTLED, "True", "Settled", "App has reached the desired state",
           "everything matches the spec of this generation"),
    Reason(SETTLED, "False", "NamespaceTerminating", FORWARDED,
           "the namespace of the App is being deleted; the App continues when it is gone"),
    Reason(SETTLED, "False", "NoDriver", FORWARDED,
           "no driver works here; the message lists each driver, its problem and the fix"),
    Reason(SETTLED, "False", "NotOurs", FORWARDED,
           "a LimaVM or ConfigMap of the same name does not belong to this App"),
    Reason(SETTLED, "False", "Refused", FORWARDED,
           "the LimaVM or its template was rejected; the message is that of the rejection"),
    Reason(SETTLED, "False", "NotAllowed", FORWARDED,
           "the deployment profile does not allow a setting, or is broken; what runs goes on, and "
           "nothing starts"),
    Reason(SETTLED, "False", "CreateFailed", FORWARDED,
           "the virtual machine was not created; the message is that of the condition Created"),
    Reason(SETTLED, "False", "ApplyingTemplate", "Applying the configuration change to the VM",
           "the virtual machine does not have the current template yet"),
    Reason(SETTLED, "False", "WaitingForLimaVM", "Waiting for LimaVM to report its state",
           "the virtual machine is being created"),
    Reason(SETTLED, "False", "Starting", "LimaVM has not yet reached Started",
           "the virtual machine is starting"),
    Reason(SETTLED, "False", "Reconciling", FORWARDED,
           "the state is being determined after a restart of the controllers"),
    Reason(SETTLED, "False", "Stopped", "LimaVM has not yet reached Started",
           "the virtual machine is about to start"),
    Reason(SETTLED, "False", "Started", "LimaVM has not yet reached Stopped",
           "the virtual machine is about to stop"),
    Reason(SETTLED, "False", "StartFailed", FORWARDED,
           "the virtual machine does not start; the message is that of the condition Running"),
    Reason(SETTLED, "False", "StopFailed", FORWARDED,
           "the virtual machine does not stop; the message is that of the condition Running"),
    Reason(SETTLED, "False", "EngineStale", "Container engine needs to be synchronized",
           "the engine controller has not seen this generation, or has not cleaned up yet"),
    Reason(SETTLED, "False", "WaitingForEngine", "Waiting for container engine condition",
           "the engine controller has not reported yet"),
    Reason(SETTLED, "False", "WaitingForKubernetes", "Waiting for Kubernetes condition",
           "the kubernetes controller has not reported yet"),
    Reason(SETTLED, "False", "KubernetesStale", "Kubernetes context needs to be synchronized",
           "the kubernetes controller has not seen this generation, or has not cleaned up yet"),
    Reason(SETTLED, "False", "NotInstalled", FORWARDED,
           "a program is missing and may not be fetched without consent; the engine goes on"),
    Reason(SETTLED, "False", "Fetching", FORWARDED,
           "a program is being fetched; nothing restarts before it is verified"),
    Reason(SETTLED, "False", "FetchFailed", FORWARDED,
           "a program could not be fetched; the engine goes on"),
    Reason(SETTLED, "False", "Deleting", "App is being deleted",
           "the virtual machine and the other objects of the App are being deleted"),
    Reason(RESTART_PENDING, "True", "TemplateChanged",
           "A newer template is used when the virtual machine is restarted",
           "the template differs because of another version of rdd or RDD_KEEP_LOGS; the spec is "
           "unchanged, so the running virtual machine is not restarted automatically"),
    Reason(DISK_PRESSURE, "True", "DiskLow", FORWARDED,
           "less than 5 GiB are free for the machine's data or for rdd's; the message has what "
           "frees space"),
    Reason(DISK_PRESSURE, "True", "DiskFull", FORWARDED, "less than 1 GiB is free"),
    Reason(DISK_PRESSURE, "True", "GuestDiskLow", FORWARDED,
           "less than a tenth, or 5 GiB, of a file system of the guest is free"),
    Reason(DISK_PRESSURE, "True", "GuestDiskFull", FORWARDED,
           "less than a fiftieth, or 1 GiB, is free"),
    Reason(KUBERNETES_READY, "True", "Ready", "Kubernetes cluster is ready",
           "the API responds, a node is ready, the contexts are published"),
    Reason(KUBERNETES_READY, "Unknown", "Reconciling",
           "Verifying the cluster after controller restart",
           "the state is being determined after a restart of the controllers; the contexts stay"),
    Reason(KUBERNETES_READY, "False", "NotApplicable", "Kubernetes is not enabled",
           "spec.kubernetes.enabled is false; there are no contexts"),
    Reason(KUBERNETES_READY, "False", "NotRunning", "VM is not running",
           "there are no contexts"),
    Reason(KUBERNETES_READY, "False", "NotInstalled", FORWARDED,
           "the type host needs a k3s program, which is missing"),
    Reason(KUBERNETES_READY, "False", "Probing", "Waiting for k3s API server",
           "the API does not respond"),
    Reason(KUBERNETES_READY, "False", "WaitingForNode", FORWARDED,
           "the API responds, but no node is ready"),
    Reason(KUBERNETES_READY, "False", "MergeFailed", "Failed to publish Kubernetes context: …",
           "the kubeconfig of the user could not be written; it is unchanged"),
)  # fmt: skip


def settled(reason: str, message: str = "") -> Condition:
    return REASONS.condition(SETTLED, reason, message)


def restart_pending(is_pending: bool) -> Condition | None:
    return REASONS.condition(RESTART_PENDING, "TemplateChanged") if is_pending else None


def disk_pressure(reason: str, message: str) -> Condition:
    return REASONS.condition(DISK_PRESSURE, reason, message)


def kubernetes_ready(reason: str, message: str = "") -> Condition:
    return REASONS.condition(KUBERNETES_READY, reason, message)


def update(page: str) -> str:
    """Return a page with a new table below the marker."""
    head, marker, _ = page.partition(MARKER)
    return f"{head}{marker or MARKER}\n\n{REASONS.markdown()}"
