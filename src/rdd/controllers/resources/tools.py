# SPDX-License-Identifier: Apache-2.0
"""The objects by which files of the catalogue of tools are fetched.

A file has one Resource, whoever needs it, so a digest that a user has given for it, or that was
read from its publisher once, holds for all.
"""

import re
from typing import Any

from rdd.api import names
from rdd.api.types import Object
from rdd.toolbox.catalogue import CatalogueFile, Tool


def resource_name(tool: Tool, version: str, file: CatalogueFile) -> str:
    """Return the name of the Resource of a file, and of the Checkouts of it."""
    return re.sub(r"[^a-z0-9.-]+", "-", f"{tool.name}-{version}-{file.name}".lower())


def resource_object(tool: Tool, version: str, file: CatalogueFile) -> Object:
    """Return the Resource of a file. Its spec has only what is known of the file."""
    spec: dict[str, Any] = {"url": file.url, "category": "tool"}
    if file.digest:
        spec["digest"] = file.digest
    if file.checksum_url:
        spec["checksumURL"] = file.checksum_url
    if (signature := file.signature) is not None:
        spec["signature"] = {"url": signature.url, "of": signature.signed}
        spec["signature"] |= (
            {"key": signature.key} if signature.key else {"keyURL": signature.key_url}
        )
    name = resource_name(tool, version, file)
    return {"metadata": {"name": name, "labels": _labels(tool, version)}, "spec": spec}


def checkout_object(tool: Tool, version: str, file: CatalogueFile, namespace: str) -> Object:
    """Return a Checkout that leaves the file in the cache."""
    name = resource_name(tool, version, file)
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": _labels(tool, version)},
        "spec": {"resource": name, "readonly": True},
    }


def _labels(tool: Tool, version: str) -> dict[str, str]:
    return {names.TOOL: tool.name, names.TOOL_VERSION: version.replace("+", "-")}
