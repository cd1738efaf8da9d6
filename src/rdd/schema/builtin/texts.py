# SPDX-License-Identifier: Apache-2.0
"""Descriptions that are part of the protocol.

kubectl shows the descriptions of table columns (`kubectl get -o json` of a
Table, `kubectl explain`) and scripts compare them, so these few are worded as
Kubernetes publishes them. All other descriptions are our own.
"""

_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"

KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may "
    "infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. "
    f"More info: {_CONVENTIONS}#types-kinds"
)
API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
    f"More info: {_CONVENTIONS}#resources"
)
METADATA = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
LIST_METADATA = f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds"

NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    "updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
CREATION_TIMESTAMP = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is not guaranteed to be set in happens-before order across separate operations. Clients "
    "may not set this value. It is represented in RFC3339 form and is in UTC.\n\n"
    "Populated by the system. Read-only. Null for lists. More info: "
    f"{_CONVENTIONS}#metadata"
)
CONFIG_MAP_DATA = (
    "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', "
    "'_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys "
    "stored in Data must not overlap with the keys in the BinaryData field, this is enforced "
    "during validation process."
)
SECRET_TYPE = (
    "Used to facilitate programmatic handling of secret data. More info: "
    "https://kubernetes.io/docs/concepts/configuration/secret/#secret-types"
)
SECRET_DATA = (
    "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or "
    "'.'. The serialized form of the secret data is a base64 encoded string, representing the "
    "arbitrary (possibly non-string) data value here. Described in "
    "https://tools.ietf.org/html/rfc4648#section-4"
)
EVENT_LAST_TIMESTAMP = "The time at which the most recent occurrence of this event was recorded."
EVENT_FIRST_TIMESTAMP = (
    "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)"
)
EVENT_TYPE = "Type of this event (Normal, Warning), new types could be added in the future"
EVENT_REASON = (
    "This should be a short, machine understandable string that gives the reason for the "
    "transition into the object's current status."
)
EVENT_OBJECT = "The object that this event is about."
EVENT_SOURCE = (
    "The component reporting this event. Should be a short machine understandable string."
)
EVENT_MESSAGE = "A human-readable description of the status of this operation."
EVENT_COUNT = "The number of times this event has occurred."
FIELD_PATH = (
    "If referring to a piece of an object instead of an entire object, this string should contain "
    "a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For "
    "example, if the object reference is to a container within a pod, this would take on a value "
    'like: "spec.containers{name}" (where "name" refers to the name of the container that '
    'triggered the event) or if no container name is specified "spec.containers[2]" (container '
    "with index 2 in this pod). This syntax is chosen only to have some well-defined way of "
    "referencing a part of an object."
)
ROLE_REF = (
    "RoleRef can reference a Role in the current namespace or a ClusterRole in the global "
    "namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."
)
CLUSTER_ROLE_REF = (
    "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be "
    "resolved, the Authorizer must return an error."
)
HOLDER_IDENTITY = (
    "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader "
    "Election is used, the holder identity must be equal to the elected "
    "LeaseCandidate.metadata.name field."
)


_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_HOME = "https://kubernetes.io/docs"

# Descriptions of lists and of their items, by group and kind of the items.
_DESCRIBED_LISTS: dict[tuple[str, str], tuple[str, str]] = {
    ("", "ConfigMap"): (
        "ConfigMapList is a resource containing a list of ConfigMap objects.",
        "Items is the list of ConfigMaps.",
    ),
    ("", "Event"): ("EventList is a list of events.", "List of events"),
    ("", "Namespace"): (
        "NamespaceList is a list of Namespaces.",
        "Items is the list of Namespace objects in the list. More info: "
        f"{_HOME}/concepts/overview/working-with-objects/namespaces/",
    ),
    ("", "ResourceQuota"): (
        "ResourceQuotaList is a list of ResourceQuota items.",
        "Items is a list of ResourceQuota objects. More info: "
        f"{_HOME}/concepts/policy/resource-quotas/",
    ),
    ("", "Secret"): (
        "SecretList is a list of Secret.",
        f"Items is a list of secret objects. More info: {_HOME}/concepts/configuration/secret",
    ),
    ("", "ServiceAccount"): (
        "ServiceAccountList is a list of ServiceAccount objects",
        "List of ServiceAccounts. More info: "
        f"{_HOME}/tasks/configure-pod-container/configure-service-account/",
    ),
    ("coordination.k8s.io", "Lease"): (
        "LeaseList is a list of Lease objects.",
        "items is a list of schema objects.",
    ),
    ("events.k8s.io", "Event"): (
        "EventList is a list of Event objects.",
        "items is a list of schema objects.",
    ),
    **{
        (_RBAC, kind): (f"{kind}List is a collection of {kind}s", f"Items is a list of {kind}s")
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    },
    **{
        (_ADMISSION, kind): (f"{kind}List is a list of {kind}.", f"List of {kind}.")
        for kind in (
            *("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"),
            *("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"),
        )
    },
    **{
        (_ADMISSION, kind): (f"{kind}List is a list of {kind}.", "List of PolicyBinding.")
        for kind in ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")
    },
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        "CustomResourceDefinitionList is a list of CustomResourceDefinition objects.",
        "items list individual CustomResourceDefinition objects",
    ),
    ("apiregistration.k8s.io", "APIService"): (
        "APIServiceList is a list of APIService objects.",
        "Items is the list of APIService",
    ),
}
LISTS = {key: texts[0] for key, texts in _DESCRIBED_LISTS.items()}
LIST_ITEMS = {key: texts[1] for key, texts in _DESCRIBED_LISTS.items()}
