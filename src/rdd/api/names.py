# SPDX-License-Identifier: Apache-2.0
"""Names that several packages share: groups, annotations, labels, finalizers, headers, objects.

Each is spelled here and nowhere else. The module imports nothing, so that commands and the
API server can use it at no cost; use it as `names.RESTART_REQUESTED`. Names that one module
uses stay in that module. The packages `vm` and `engine` do not import rdd.api; controllers
import what they share with them from there.
"""

# -- API groups of this project

DOMAIN = "rancherdesktop.io"
APP_GROUP = f"app.{DOMAIN}"
CONTAINERS_GROUP = f"containers.{DOMAIN}"
LIMA_GROUP = f"lima.{DOMAIN}"
RDD_GROUP = f"rdd.{DOMAIN}"
ENGINE_PREFIX = f"engine.{DOMAIN}"
"""Not a group: the prefix of annotations and finalizers of mirrored objects."""
MACHINE_GROUPS = frozenset({APP_GROUP, CONTAINERS_GROUP, LIMA_GROUP})
"""Groups whose objects stand for things of one machine."""
MACHINE_RESOURCES = frozenset(
    (RDD_GROUP, plural)
    for plural in ("checkouts", "hostinfos", "resources", "snapshots", "urlmonitors")
)
"""Further resources of that kind."""
VERSION = "v1alpha1"
"""The version of all kinds of this project."""

APP_API = f"/apis/{APP_GROUP}/{VERSION}"
RDD_API = f"/apis/{RDD_GROUP}/{VERSION}"
CONTAINERS_API = f"/apis/{CONTAINERS_GROUP}/{VERSION}"
LIMA_API = f"/apis/{LIMA_GROUP}/{VERSION}"

# -- API groups of Kubernetes

ADMISSION_GROUP = "admissionregistration.k8s.io"
AUTHENTICATION_GROUP = "authentication.k8s.io"
AUTHORIZATION_GROUP = "authorization.k8s.io"
COORDINATION_GROUP = "coordination.k8s.io"
EVENTS_GROUP = "events.k8s.io"
EXTENSIONS_GROUP = "apiextensions.k8s.io"
META_GROUP = "meta.k8s.io"
RBAC_GROUP = "rbac.authorization.k8s.io"
REGISTRATION_GROUP = "apiregistration.k8s.io"

# -- Annotations

ACTION = f"{CONTAINERS_GROUP}/action"
"""Requests an action on a container: start, stop, restart, …"""

CONTROLLER = f"{RDD_GROUP}/controller"
"""On a CustomResourceDefinition: the controller that installs it."""

READY = f"{RDD_GROUP}/ready"
"""On the discovery ConfigMap: "true" when all controllers of the daemon are ready."""

CHANGES = f"{APP_GROUP}/changes"
"""Annotation of the App: its last accepted changes as JSON, until they are in the history."""
HISTORY_CONFIG_MAP = "app-history"
"""ConfigMap in the system namespace with the accepted changes of the App's spec."""
SHUTDOWN = f"shutdown.{DOMAIN}/shutdown"
"""On such a ConfigMap: `pending` while the daemon waits, `complete` when it may stop."""

KUBERNETES_VERSION_LABEL = f"{APP_GROUP}/kubernetesVersion"
DOWNLOADS_APPROVED = f"{APP_GROUP}/downloadsApproved"
TOOL = f"{RDD_GROUP}/tool"
TOOL_VERSION = f"{RDD_GROUP}/toolVersion"
"""Labels of the Resources of a tool."""
CPUS_DEFAULTED = f"{APP_GROUP}/cpusDefaulted"
MEMORY_DEFAULTED = f"{APP_GROUP}/memoryDefaulted"
"""On the App: "true" if the value of spec.virtualMachine is a default, "false" if it was set."""

FROM_PROFILE = f"{APP_GROUP}/from-profile"
"""The settings of an App that the deployment profile filled in at its creation."""
DIAGNOSTIC_MUTED = f"{APP_GROUP}/muted"
"""On a Diagnostic: "true" if its problem is known and shall not be shown as one."""

RUN_REQUESTED = f"{APP_GROUP}/runRequested"
"""On a Diagnostic: run its check now, whatever the value; removed afterwards."""

RESTART_REQUESTED = f"{LIMA_GROUP}/restartRequested"
"""Requests a restart of a LimaVM, whatever its value."""

RETRY_REQUESTED = f"{LIMA_GROUP}/retryRequested"
"""Annotation of a LimaVM: retry a failed creation or start now; removed when it is honoured."""

RESET_REQUESTED = f"{LIMA_GROUP}/resetRequested"
"""Requests a new disk from the template, whatever its value."""

STOP_MODE = f"{LIMA_GROUP}/stopMode"
"""How to stop a LimaVM: `suspend` keeps the memory for the next start."""

CLONE_OF = f"{LIMA_GROUP}/cloneOf"
"""On a new LimaVM: the stopped LimaVM whose disk it copies."""

DRIVER = f"{LIMA_GROUP}/driver"
"""On a new LimaVM: the driver that runs it, host, lima or qemu."""

DELETION_GRACE = f"{LIMA_GROUP}/deletionGracePeriodSeconds"
"""Seconds that a deletion gives the virtual machine to shut down."""

RESTORE_FROM = f"{LIMA_GROUP}/restoreFrom"
"""On a LimaVM, or an App that creates one: the entry of the trash that becomes its instance."""

RESTORE_SNAPSHOT_PREFIX = "snapshot:"
"""Before the name of a Snapshot in RESTORE_FROM: that becomes the instance, not an entry of the
trash."""

HOLD = f"{LIMA_GROUP}/hold"
"""On a LimaVM: it is stopped and does not start while this is there; the value is who holds it."""

DISK_SNAPSHOTS_CHANGED = f"{LIMA_GROUP}/diskSnapshotsChanged"
"""On a LimaVM: snapshots inside of its disk were created or deleted; removed when that is seen."""

SNAPSHOT_CONTENT = f"{RDD_GROUP}/content"
"""On a new Snapshot: the id of content that is on disk already, by an import or a reset."""

SNAPSHOT_RESTORE = f"{RDD_GROUP}/restoreRequested"
"""On a Snapshot: restore it; the value identifies the request in the status."""

SNAPSHOT_RESTORE_AS = f"{RDD_GROUP}/restoreAs"
"""Beside SNAPSHOT_RESTORE: the name of a LimaVM to create from it."""

SKIP_TRASH = f"{LIMA_GROUP}/skipTrash"
"""On a LimaVM or the App: what a reset or a deletion removes is not kept in the trash."""

TEMPLATE = f"{LIMA_GROUP}/template"
"""Short-lived: the template that admission passes to the controller."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

# -- Labels

LEASE_LABEL = f"{RDD_GROUP}/lease"
MACHINE_LABEL = f"{RDD_GROUP}/machine"
"""On a shared store: the machine that an object of MACHINE_GROUPS belongs to."""
SHUTDOWN_NOTIFICATION = f"shutdown.{DOMAIN}/notification"
"""On ConfigMaps whose owners must complete their work before the daemon stops."""
TEMPLATE_LABEL = f"{LIMA_GROUP}/template-configmap"
"""On ConfigMaps whose template is validated when they are written."""

METADATA_NAME = "kubernetes.io/metadata.name"
APP_NAME_LABEL = "app.kubernetes.io/name"
APP_INSTANCE_LABEL = "app.kubernetes.io/instance"
APP_COMPONENT_LABEL = "app.kubernetes.io/component"
APP_MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"

# -- Finalizers

CLEANUP_FINALIZER = f"{RDD_GROUP}/cleanup"
"""The controller of the object has to clean up before the object is removed."""

MIRROR_FINALIZER = f"{ENGINE_PREFIX}/mirror"
"""The object mirrors an item of the container engine."""

OWNED_BY_FINALIZER = f"{RDD_GROUP}/owned-by-"
"""Prefix; the kind of the owner follows, which alone removes the finalizer."""

CRD_CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
NAMESPACE_FINALIZER = "kubernetes"
"""In spec.finalizers of a namespace: its content has not been deleted."""

# -- HTTP

OWNER_HEADER = "X-Rdd-Owner"
"""With a write of a controller: `<controller>/<holder>/<epoch>`."""

MACHINE_HEADER = "X-Rdd-Machine"
"""With a write of a controller on a shared store: the machine it acts for."""

STALE_OWNER = "StaleOwner"
"""The cause in the Status of a write that was rejected because of its owner."""

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause in the Status of a write to a namespace that is being deleted."""

PASSTHROUGH_SECRET_HEADER = "X-Rdd-Passthrough-Secret"
PASSTHROUGH_PREFIX = "/passthrough/"

DASHBOARD_LOGIN_PATH = "/service/dashboard-login"
"""A POST of an administrator returns a login link of the dashboard."""
HOST_STATS_PATH = "/service/host"
"""CPU, memory and disk of this computer and the daemon."""

# -- Well-known objects

APP_NAME = "app"
"""The only App."""

APP_VM_NAME = "rd"
"""The LimaVM of the App."""

DEFAULT_NAMESPACE = "default"
KUBE_SYSTEM_NAMESPACE = "kube-system"
KUBE_PUBLIC_NAMESPACE = "kube-public"
SYSTEM_NAMESPACE = "rdd-system"
"""Leases and the discovery ConfigMap."""

PROFILE_CONFIG_MAP = "profile"
"""In rdd-system: a copy of the deployment profile that applies."""
DISCOVERY_CONFIG_MAP = "rdd-controller-manager"
"""Lists the controller managers."""

CONTROLLER_LEASE_PREFIX = "controller-"
MANAGER_LEASE_PREFIX = "manager-"
ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"

# -- Condition types

CREATED = "Created"
RUNNING = "Running"
DEGRADED = "Degraded"
PAUSED = "Paused"
ENGINE_READY = "ContainerEngineReady"
KUBERNETES_READY = "KubernetesReady"
RESTART_PENDING = "RestartPending"
DISK_PRESSURE = "DiskPressure"
SETTLED = "Settled"
HEALTHY = "Healthy"
ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
