# SPDX-License-Identifier: Apache-2.0
"""Every reason the controllers `app` and `kubernetes` give, and what it says.

Other programs match reasons and messages, so they stand in one place: a condition is made
by `said`, which knows nothing but this table, and docs/app.md shows it:

    python -m rdd.controllers.app.app docs/app.md

What is mirrored from the LimaVM (Created, Running, Degraded) is that controller's.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

MARKER = "<!-- Below this line: python -m rdd.controllers.app.app docs/app.md -->"
"""Everything after it in docs/app.md is generated."""

SETTLED = "Settled"
KUBERNETES_READY = "KubernetesReady"
RESTART_PENDING = "RestartPending"

Status = Literal["True", "False", "Unknown"]

FORWARDED = "…"
"""A message that comes from elsewhere: an error, another condition."""


class Row(NamedTuple):
    """One thing a condition can say."""

    type: str
    status: Status
    reason: str
    message: str
    """With a FORWARDED at the end: the beginning of it."""
    meaning: str


class Said(NamedTuple):
    """What a condition says now."""

    type: str
    status: Status
    reason: str
    message: str


TABLE: tuple[Row, ...] = (
    Row(SETTLED, "True", "Settled", "App has reached the desired state",
        "everything is as the spec of this generation asks for"),
    Row(SETTLED, "False", "NamespaceTerminating", FORWARDED,
        "the namespace of the App is being deleted; the App goes on when it is gone"),
    Row(SETTLED, "False", "NoDriver", FORWARDED,
        "nothing can run the containers here; the message lists what was tried and what helps"),
    Row(SETTLED, "False", "NotOurs", FORWARDED,
        "a LimaVM or ConfigMap of the name exists that was not made by this App"),
    Row(SETTLED, "False", "Refused", FORWARDED,
        "the LimaVM or its template was refused; the message is that of the refusal"),
    Row(SETTLED, "False", "CreateFailed", FORWARDED,
        "the virtual machine could not be made; the message is that of the condition Created"),
    Row(SETTLED, "False", "ApplyingTemplate", "Applying the configuration change to the VM",
        "the virtual machine does not have the present template yet"),
    Row(SETTLED, "False", "WaitingForLimaVM", "Waiting for LimaVM to report its state",
        "the virtual machine is being made"),
    Row(SETTLED, "False", "Starting", "LimaVM has not yet reached Started",
        "the virtual machine is on its way up"),
    Row(SETTLED, "False", "Reconciling", FORWARDED,
        "what runs is looked at after a restart of the controllers"),
    Row(SETTLED, "False", "Stopped", "LimaVM has not yet reached Started",
        "the virtual machine is about to start"),
    Row(SETTLED, "False", "Started", "LimaVM has not yet reached Stopped",
        "the virtual machine is about to stop"),
    Row(SETTLED, "False", "StartFailed", FORWARDED,
        "the virtual machine does not come up; the message is that of the condition Running"),
    Row(SETTLED, "False", "StopFailed", FORWARDED,
        "the virtual machine does not stop; the message is that of the condition Running"),
    Row(SETTLED, "False", "EngineStale", "Container engine needs to be synchronized",
        "the engine controller has not seen this generation, or has not cleaned up yet"),
    Row(SETTLED, "False", "WaitingForEngine", "Waiting for container engine condition",
        "the engine controller has not reported yet"),
    Row(SETTLED, "False", "WaitingForKubernetes", "Waiting for Kubernetes condition",
        "the kubernetes controller has not reported yet"),
    Row(SETTLED, "False", "KubernetesStale", "Kubernetes context needs to be synchronized",
        "the kubernetes controller has not seen this generation, or has not cleaned up yet"),
    Row(SETTLED, "False", "Deleting", "App is being deleted",
        "the virtual machine and everything else of the App is being removed"),
    Row(RESTART_PENDING, "True", "TemplateChanged",
        "A newer template is used when the virtual machine is restarted",
        "the running virtual machine was made by another version of rdd, or logs are kept now; "
        "nothing in the spec has changed, so it is not restarted by itself"),
    Row(KUBERNETES_READY, "True", "Ready", "Kubernetes cluster is ready",
        "the API answers, a node is ready, the contexts are published"),
    Row(KUBERNETES_READY, "Unknown", "Reconciling",
        "Verifying the cluster after controller restart",
        "the cluster is looked at after a restart of the controllers; the contexts stay"),
    Row(KUBERNETES_READY, "False", "NotApplicable", "Kubernetes is not enabled",
        "spec.kubernetes.enabled is false; there are no contexts"),
    Row(KUBERNETES_READY, "False", "NotRunning", "VM is not running",
        "there are no contexts"),
    Row(KUBERNETES_READY, "False", "NotInstalled", FORWARDED,
        "the type host needs a k3s program, and there is none"),
    Row(KUBERNETES_READY, "False", "Probing", "Waiting for k3s API server",
        "the API does not answer yet, or not any more"),
    Row(KUBERNETES_READY, "False", "WaitingForNode", FORWARDED,
        "the API answers, but no node is ready"),
    Row(KUBERNETES_READY, "False", "MergeFailed", "Failed to publish Kubernetes context: …",
        "the kubeconfig of the user could not be written; it was left as it is"),
)  # fmt: skip

_BY_REASON = {(row.type, row.reason): row for row in TABLE}


def said(type_: str, reason: str, message: str = "") -> Said:
    """What a condition says by a reason; `message` is for rows that forward one.

    KeyError for a reason that is not in the table.
    """
    row = _BY_REASON[type_, reason]
    text = row.message
    if message and text.endswith(FORWARDED):
        text = text.removesuffix(FORWARDED) + message
    elif message:
        text = message
    elif text.endswith(FORWARDED):
        text = row.meaning
    return Said(type_, row.status, reason, text)


def forwarded(type_: str, reason: str, message: str) -> Said:
    """What another condition says, under the name of this one."""
    return Said(type_, "False", reason, message)


def render(rows: Iterable[Row] = TABLE) -> str:
    """The table in Markdown."""
    lines = ["| Condition | Status | Reason | Message | Meaning |", "|---|---|---|---|---|"]
    for row in rows:
        message = "*(forwarded)*" if row.message == FORWARDED else f"`{row.message}`"
        lines.append(f"| {row.type} | {row.status} | `{row.reason}` | {message} | {row.meaning} |")
    return "\n".join(lines) + "\n"


def update(page: str) -> str:
    """A page with the part below the marker made anew."""
    head, marker, _ = page.partition(MARKER)
    return f"{head}{marker or MARKER}\n\n{render()}"
