# SPDX-License-Identifier: Apache-2.0
"""Strategies of the core group: Namespace, ConfigMap, Secret, ServiceAccount.

(ResourceQuota and Event have their own modules.)
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from rdd.api import fielderrors, metadata, name_validation, names
from rdd.api.fielderrors import FieldError
from rdd.api.name_validation import is_ordinary_config_key
from rdd.api.types import Object
from rdd.apiserver.kinds import tlspair
from rdd.apiserver.kinds.builtin_strategy import (
    AGE,
    NAME,
    BuiltinStrategy,
    StatusStrategy,
    immutable_error,
    keep,
)
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.base import goformat
from rdd.schema.builtin import texts

MAX_DATA_BYTES = 1024 * 1024
"""The maximum total size of the values of a ConfigMap or Secret."""

_IMMUTABLE = "field is immutable when `immutable` is set"


class NamespaceStrategy(StatusStrategy):
    """Namespaces: deleted in two steps, with finalizers in spec."""

    verbs = ("create", "delete", "get", "list", "patch", "update", "watch")
    deletes_in_two_steps = True
    qualified_finalizers = True
    columns = (NAME, TableColumn("Status", description="The status of the namespace"), AGE)
    selectable_labels = frozenset({"status.phase"})

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Require a DNS label, because a namespace is part of host names."""
        return name_validation.dns1123_label_errors(name, is_prefix=is_prefix)

    def normalise(self, obj: Object) -> None:
        """Add the label that selects the namespace by name, and the phase if it is missing."""
        status = obj.get("status") or {}
        if not status.get("phase"):
            obj["status"] = {**status, "phase": "Active"}
        meta = obj["metadata"]
        if meta.get("name"):
            labels = dict(meta.get("labels") or {})
            labels[names.METADATA_NAME] = meta["name"]
            meta["labels"] = dict(sorted(labels.items()))

    def prepare_for_create(self, obj: Object) -> None:
        """Set the phase to Active and add the finalizer `kubernetes`."""
        self.normalise(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = list((obj.get("spec") or {}).get("finalizers") or ())
        if names.NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(names.NAMESPACE_FINALIZER)
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": finalizers}

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.finalizer_errors(obj)
        for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
            errors += _spec_finalizer_errors(finalizer, "spec.finalizers")
        return errors

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        """Revert spec except on /finalize, and status except on /status."""
        if subresource == "status":
            keep(obj, old, "spec")
            return
        keep(obj, old, "status")
        if subresource != "finalize":
            keep(obj, old, "spec")

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        if subresource == "status":
            return self._phase_errors(obj)
        if subresource == "finalize":
            finalizers = (obj.get("spec") or {}).get("finalizers") or ()
            return [
                error
                for i, finalizer in enumerate(finalizers)
                for error in _spec_finalizer_errors(finalizer, f"spec.finalizers[{i}]")
            ]
        return self.errors(obj)

    def _phase_errors(self, obj: Object) -> list[FieldError]:
        phase = (obj.get("status") or {}).get("phase", "")
        if obj["metadata"].get("deletionTimestamp"):
            wanted, when = "Terminating", "not empty"
        else:
            wanted, when = "Active", "empty"
        if phase == wanted:
            return []
        detail = f"may only be '{wanted}' if `deletionTimestamp` is {when}"
        return [fielderrors.invalid("status.Phase", phase, detail)]

    def is_held(self, obj: Object) -> bool:
        """Return whether finalizers in metadata or spec keep the namespace."""
        return super().is_held(obj) or bool((obj.get("spec") or {}).get("finalizers"))

    def begin_deletion(self, obj: Object, *, now: str) -> bool:
        """Terminate first; a second DELETE removes a namespace without finalizers."""
        spec = obj.get("spec") or {}
        if obj["metadata"].get("deletionTimestamp") and not spec.get("finalizers"):
            return False
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return True

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase", "")}

    def bookmark(self, obj: Object) -> Object:
        return {**obj, "spec": {}, "status": {}}

    def own_cells(self, obj: Object) -> list[Any]:
        return [(obj.get("status") or {}).get("phase", "")]


def _spec_finalizer_errors(finalizer: str, path: str) -> list[FieldError]:
    errors = [
        fielderrors.invalid(path, finalizer, why)
        for why in name_validation.qualified_name_errors(finalizer)
    ]
    for error in metadata.validate_kube_finalizers({"finalizers": [finalizer]}):
        errors.append(fielderrors.invalid(path, finalizer, error.detail))
    return errors


class ConfigMapStrategy(BuiltinStrategy):
    """ConfigMaps: limited size, valid keys, immutable on request."""

    repeated_metadata_checks = ("changed", "whole")
    qualified_finalizers = True
    columns = (NAME, TableColumn("Data", description=texts.CONFIG_MAP_DATA), AGE)

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.finalizer_errors(obj)
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        total = 0
        for key, value in data.items():
            if not is_ordinary_config_key(key):
                errors += _key_errors(key, "data")
            if key in binary:
                detail = "duplicate of key present in binaryData"
                errors.append(fielderrors.invalid(f"data[{key}]", key, detail))
            total += len(value) if value.isascii() else len(value.encode())
        for key, value in binary.items():
            if not is_ordinary_config_key(key):
                errors += _key_errors(key, "binaryData")
            total += decoded_length(value)
        if total > MAX_DATA_BYTES:
            # Kubernetes uses an empty path for the whole object, which it prints like this.
            errors.append(fielderrors.too_long("[]", MAX_DATA_BYTES))
        return errors

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        return _immutable_data_errors(obj, old, "data", "binaryData") + self.errors(obj)

    def own_cells(self, obj: Object) -> list[Any]:
        return [len(obj.get("data") or ()) + len(obj.get("binaryData") or ())]


class SecretStrategy(BuiltinStrategy):
    """Secrets: typed, limited size, immutable on request."""

    repeated_metadata_checks = ("changed", "whole")
    qualified_finalizers = True
    columns = (
        NAME,
        TableColumn("Type", description=texts.SECRET_TYPE),
        TableColumn("Data", description=texts.SECRET_DATA),
        AGE,
    )
    selectable_labels = frozenset({"type"})

    def normalise(self, obj: Object) -> None:
        """Convert stringData to data and default the type to Opaque."""
        texts_by_key = obj.pop("stringData", None)
        if texts_by_key:
            data = dict(obj.get("data") or {})
            for key, text in texts_by_key.items():
                data[key] = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
            obj["data"] = dict(sorted(data.items()))
        if not obj.get("type"):
            obj["type"] = "Opaque"
        _order(obj, "immutable", "data", "type")

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.finalizer_errors(obj)
        data = obj.get("data") or {}
        total = 0
        for key, value in data.items():
            if not is_ordinary_config_key(key):
                errors += _key_errors(key, "data")
            total += decoded_length(value)
        if total > MAX_DATA_BYTES:
            errors.append(fielderrors.too_long("data", MAX_DATA_BYTES))
        return errors + _type_errors(obj, data)

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        errors = immutable_error("type", obj.get("type", ""), old.get("type", ""))
        return errors + _immutable_data_errors(obj, old, "data") + self.errors(obj)

    def warnings(self, obj: Object) -> list[str]:
        """Warn about a TLS key pair that cannot be used."""
        if obj.get("type") != "kubernetes.io/tls":
            return []
        data = obj.get("data") or {}
        problem = tlspair.problem(_decoded(data.get("tls.crt")), _decoded(data.get("tls.key")))
        return [problem] if problem else []

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"type": obj.get("type", "")}

    def own_cells(self, obj: Object) -> list[Any]:
        return [obj.get("type", ""), len(obj.get("data") or ())]


def _order(obj: Object, *members: str) -> None:
    """Move members to the end, in this order."""
    for member in members:
        if member in obj:
            obj[member] = obj.pop(member)


_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"


def _type_errors(obj: Object, data: Mapping[str, str]) -> list[FieldError]:
    kind = obj.get("type", "")
    if kind in _REQUIRED_KEYS:
        return _json_errors(data, _REQUIRED_KEYS[kind])
    missing: list[str] = []
    if kind == "kubernetes.io/service-account-token":
        if not (obj["metadata"].get("annotations") or {}).get(_SERVICE_ACCOUNT):
            return [fielderrors.required(f"metadata.annotations[{_SERVICE_ACCOUNT}]")]
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            missing = ["username", "password"]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            missing = ["ssh-privatekey"]
    elif kind == "kubernetes.io/tls":
        missing = [key for key in ("tls.crt", "tls.key") if key not in data]
    return [fielderrors.required(f"data[{key}]") for key in missing]


def _json_errors(data: Mapping[str, str], key: str) -> list[FieldError]:
    if key not in data:
        return [fielderrors.required(f"data[{key}]")]
    from rdd.api import decode
    from rdd.api.errors import BadRequest

    detail = ""
    try:
        value = decode.decode_json(_decoded(data[key]))
        if value is not None and not isinstance(value, dict):
            kind = goformat.json_kind(value)
            detail = (
                f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )
    except BadRequest as error:
        detail = error.message
    if not detail:
        return []
    return [fielderrors.invalid(f"data[{key}]", "<secret contents redacted>", detail)]


def _decoded(value: str | None) -> bytes:
    try:
        return base64.b64decode(value or "")
    except (binascii.Error, ValueError):
        return b""


def decoded_length(text: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(text) // 4 * 3 - text[-2:].count("=")


def _key_errors(key: str, member: str) -> list[FieldError]:
    return [
        fielderrors.invalid(f"{member}[{key}]", key, why)
        for why in name_validation.config_map_key_errors(key)
    ]


def _immutable_data_errors(obj: Object, old: Object, *members: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = []
    if not obj.get("immutable"):
        errors.append(fielderrors.forbidden("immutable", _IMMUTABLE))
    for member in members:
        if (obj.get(member) or {}) != (old.get(member) or {}):
            errors.append(fielderrors.forbidden(member, _IMMUTABLE))
    return errors


class ServiceAccountStrategy(BuiltinStrategy):
    repeated_metadata_checks = ("changed", "whole")
    qualified_finalizers = True
    returns_deleted = True

    def prepare_for_create(self, obj: Object) -> None:
        """Reduce references to secrets to their names."""
        if obj.get("secrets"):
            obj["secrets"] = [
                {"name": secret["name"]} if secret.get("name") else {} for secret in obj["secrets"]
            ]

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        self.prepare_for_create(obj)
