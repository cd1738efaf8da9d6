# SPDX-License-Identifier: Apache-2.0
"""kubernetes: reports the readiness of the App's cluster, and publishes its kube context.

probe        the health of the API and of the nodes
contexts     the context in the kubeconfig of the user
reconciler   the condition KubernetesReady
"""

from functools import partial

from rdd.controllers.app.kubernetes.reconciler import KubernetesReconciler
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.runtime import Controller, watch


def kubernetes(env: ControllerEnvironment) -> Controller:
    """Create the controller of the cluster."""
    return Controller(
        "kubernetes",
        partial(KubernetesReconciler, env=env),
        sources=(watch(App),),
    )
