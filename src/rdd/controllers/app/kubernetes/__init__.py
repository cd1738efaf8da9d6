# SPDX-License-Identifier: Apache-2.0
"""kubernetes: says when the cluster of the App is ready, and leads kubectl to it.

probe        whether the API answers and a node is ready
contexts     our entries in the kubeconfig of the user
reconciler   what KubernetesReady says, step by step
"""

from functools import partial

from rdd.controllers.app.kubernetes.reconciler import KubernetesReconciler
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App
from rdd.runtime import Controller, watch


def kubernetes(env: ControllerEnvironment) -> Controller:
    """The controller of the cluster."""
    return Controller(
        "kubernetes",
        partial(KubernetesReconciler, env=env),
        sources=(watch(App),),
    )
