# SPDX-License-Identifier: Apache-2.0
"""A library for writing controllers: declare what you watch, write one `reconcile`.

    class DemoReconciler:
        def __init__(self, context: Context) -> None:
            self.client = context.client
            self.demos = context.cache.of(Demo)

        async def reconcile(self, key: ObjectKey) -> Result:
            demo = self.demos.get(key)
            if demo is None:
                return Result.done()
            …

    def demo() -> Controller:
        return Controller(
            "demo",
            DemoReconciler,
            sources=(watch(Demo, generation_changed), owns(CONFIG_MAPS, Demo)),
            definitions=(definition_of(Demo),),
            webhooks=(validating("demo-validator", Demo, check),),
        )

    manager = Manager("app", client, [demo()], ownership=Ownership(client, "app"), host=host)

Life of a change: the `Informer` of a resource receives it, the sources of a controller map
it to keys, the `WorkQueue` deduplicates them, and a worker calls `reconcile`. Reconcilers
read from the cache and write through the client.

    types, controller, sources, predicates    declaring a controller
    informer, cache                           reading objects
    workqueue                                 scheduling keys
    conditions, status, events,
    finalizers, owners                        writing objects
    admission, webhooks                       defaulting and validation
    ownership, heartbeats, fencing            one process per controller
    passthrough                               HTTP and WebSocket endpoints
    definitions, manager, endpoints           starting and stopping

docs/runtime.md is the guide; examples/03-operator is a complete program.
"""

from rdd.api.names import CLEANUP_FINALIZER as CLEANUP
from rdd.runtime.admission import (
    CREATE,
    DELETE,
    UPDATE,
    AdmissionRequest,
    Denied,
    Webhook,
    defaulting,
    refuse_deletion_of_owned,
    validating,
)
from rdd.runtime.cache import Cache, Lister
from rdd.runtime.conditions import (
    Condition,
    Reason,
    ReasonTable,
    conditions_of,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
)
from rdd.runtime.controller import Context, Controller
from rdd.runtime.definitions import NotEstablished, install_definitions
from rdd.runtime.events import EventRecorder
from rdd.runtime.finalizers import add_finalizer, is_deleting, owned_by, remove_finalizer
from rdd.runtime.informer import Change, Informer
from rdd.runtime.manager import Manager, ManagerOptions, Stopped
from rdd.runtime.metrics import Metrics
from rdd.runtime.owners import (
    AlreadyOwned,
    controller_of,
    delete_owned,
    is_controlled_by,
    owner_reference,
    with_controller,
)
from rdd.runtime.ownership import HeldByOther, Ownership, OwnershipError, OwnershipUnavailable
from rdd.runtime.passthrough import HttpPassthrough, InProcessPassthrough
from rdd.runtime.predicates import (
    annotations_changed,
    any_of,
    finalizers_changed,
    generation_changed,
    has_labels,
    is_gone,
    is_new,
    labels_changed,
    not_,
    resource_version_changed,
)
from rdd.runtime.sources import Source, maps, owns, watch
from rdd.runtime.status import (
    StatusWriter,
    apply_status,
    patch_status,
    record_transition,
    update_status,
)
from rdd.runtime.types import (
    Begins,
    Drains,
    ObjectKey,
    Reconciler,
    Result,
    Runs,
    TerminalError,
    TypedKind,
    resource_of,
)
from rdd.runtime.webhooks import HttpsHost, InProcessHost
from rdd.runtime.workqueue import WorkQueue

__all__ = [
    "CLEANUP",
    "CREATE",
    "DELETE",
    "UPDATE",
    "AdmissionRequest",
    "AlreadyOwned",
    "Begins",
    "Cache",
    "Change",
    "Condition",
    "Context",
    "Controller",
    "Denied",
    "Drains",
    "EventRecorder",
    "HeldByOther",
    "HttpPassthrough",
    "HttpsHost",
    "InProcessHost",
    "InProcessPassthrough",
    "Informer",
    "Lister",
    "Manager",
    "ManagerOptions",
    "Metrics",
    "NotEstablished",
    "ObjectKey",
    "Ownership",
    "OwnershipError",
    "OwnershipUnavailable",
    "Reason",
    "ReasonTable",
    "Reconciler",
    "Result",
    "Runs",
    "Source",
    "StatusWriter",
    "Stopped",
    "TerminalError",
    "TypedKind",
    "Webhook",
    "WorkQueue",
    "add_finalizer",
    "annotations_changed",
    "any_of",
    "apply_status",
    "conditions_of",
    "controller_of",
    "defaulting",
    "delete_owned",
    "finalizers_changed",
    "find_condition",
    "generation_changed",
    "has_labels",
    "install_definitions",
    "is_controlled_by",
    "is_deleting",
    "is_gone",
    "is_new",
    "is_true",
    "labels_changed",
    "maps",
    "not_",
    "owned_by",
    "owner_reference",
    "owns",
    "patch_status",
    "record_transition",
    "refuse_deletion_of_owned",
    "remove_condition",
    "remove_finalizer",
    "resource_of",
    "resource_version_changed",
    "set_condition",
    "update_status",
    "validating",
    "watch",
    "with_controller",
]
