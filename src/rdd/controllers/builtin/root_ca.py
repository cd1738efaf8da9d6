# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap `kube-root-ca.crt` of every namespace: the CA of the API server."""

from rdd.api import names
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.builtin.per_namespace import PerNamespaceController

KEY = "ca.crt"
_DESCRIPTION = "kubernetes.io/description"
_TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)


class RootCaController(PerNamespaceController):
    """The controller `root-ca`. `bundle` is the CA to publish, in PEM."""

    name = "root-ca"
    resource = CONFIG_MAPS
    object_name = names.ROOT_CA_CONFIG_MAP

    def __init__(self, client: Client, bundle: str) -> None:
        super().__init__(client)
        self._data = {KEY: bundle}

    def desired(self, existing: Object | None) -> Object | None:
        """Return the bundle and nothing else; a changed description is kept."""
        metadata = (existing or {}).get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        described = bool(annotations.get(_DESCRIPTION))
        if existing is not None and existing.get("data") == self._data and described:
            return None
        if not described:
            annotations = {**annotations, _DESCRIPTION: _TEXT}
        return {"metadata": {"annotations": annotations}, "data": self._data}
