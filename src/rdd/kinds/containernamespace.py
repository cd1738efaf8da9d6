# SPDX-License-Identifier: Apache-2.0
"""ContainerNamespace: a namespace of the container engine."""

from rdd.api import names
from rdd.kinds.kind import Kind


class ContainerNamespace(
    Kind, group=names.CONTAINERS_GROUP, short_names=("cns",), categories=("all",)
):
    """A namespace of the container engine; the object consists of its name."""
