# SPDX-License-Identifier: Apache-2.0
"""A kopf operator: every Greeting is shown as a ConfigMap of the same name."""

import os
from typing import Any

import kopf
import kubernetes


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False  # no events: the example is about objects
    config: Any = kubernetes.config
    config.load_kube_config(os.environ["KUBECONFIG"])


@kopf.on.login()
def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_kubeconfig(**kwargs)  # reads KUBECONFIG when it is called


@kopf.on.create("demo.example.com", "v1", "greetings", backoff=0.1)
@kopf.on.update("demo.example.com", "v1", "greetings", field="spec", backoff=0.1)
def show(spec: Any, name: str, namespace: Any, patch: Any, **_: Any) -> None:
    text = spec["text"].upper() if spec["loud"] else spec["text"]
    body = {"metadata": {"name": name}, "data": {"text": text}}
    kopf.adopt(body)  # deleted with its owner
    maps: Any = kubernetes.client.CoreV1Api()
    try:
        maps.create_namespaced_config_map(namespace, body)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise kopf.TemporaryError(f"the server said {error.status}", delay=0.1) from error
        maps.patch_namespaced_config_map(name, namespace, body)
    patch.status["shown"] = text
