# SPDX-License-Identifier: Apache-2.0
"""The ServiceAccount `default` of every namespace."""

from rdd.client.resources import SERVICE_ACCOUNTS
from rdd.controllers.builtin.per_namespace import PerNamespaceController


class ServiceAccountController(PerNamespaceController):
    """The controller `serviceaccount`. It does not change existing accounts."""

    name = "serviceaccount"
    resource = SERVICE_ACCOUNTS
    object_name = "default"
