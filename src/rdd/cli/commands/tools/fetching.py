# SPDX-License-Identifier: Apache-2.0
"""Fetch files of tools through Checkouts, so that proxies, authorities and the mirror apply.

Every file has a Checkout while it is fetched; all of them at once. Deleting them, also after a
Ctrl-C, cancels what is incomplete: the next attempt resumes it. Two commands that need the same
file share its Checkout; the one that ends last finds it deleted and creates it again.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.tools.selection import Wanted
from rdd.cli.framework.connection import conditions_of, follow, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import Progress
from rdd.cli.framework.types import Call
from rdd.controllers.resources.tools import checkout_object, resource_name, resource_object
from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.toolbox.catalogue import CatalogueFile
from rdd.toolbox.installation import FetchedFile

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_NAMESPACE = "default"
_RESOURCES = f"{names.RDD_API}/resources"
_CHECKOUTS = f"{names.RDD_API}/namespaces/{_NAMESPACE}/checkouts"
_API_VERSION = f"{names.RDD_GROUP}/{names.VERSION}"


def missing_files(call: Call, connection: "Connection", one: Wanted) -> list[CatalogueFile]:
    """Return the files of a version that the cache does not have. Raises CommandError.

    A file that cannot be verified is an error.
    """
    cache = Cache.of_user(call.environment.variables, call.instance.home)
    missing = []
    for file in one.files:
        name = resource_name(one.tool, one.version, file)
        resource = get_or_none(connection, f"{_RESOURCES}/{name}") or {}
        digest = file.digest or _digest_of(resource)
        if file.is_unverified and not digest:
            raise CommandError(
                f"{one.title}: its publisher has no checksums for {file.url}, so it is fetched "
                f"only with its digest: --digest {file.name}=sha256:…"
            )
        if not digest or cache.find(Digest.parse(digest)) is None:
            missing.append(file)
    return missing


def begin(connection: "Connection", wanted: Sequence[Wanted]) -> None:
    """Start to fetch the files of versions, all at once. Raises CommandError."""
    for one in wanted:
        for file in one.files:
            _write_resource(connection, resource_object(one.tool, one.version, file))
            _create_checkout(connection, checkout_object(one.tool, one.version, file, _NAMESPACE))


def fetched(connection: "Connection", one: Wanted, progress: Progress) -> list[FetchedFile]:
    """Return the verified files of a version when they are in the cache. Raises CommandError."""
    return [
        _fetched(
            connection,
            checkout_object(one.tool, one.version, file, _NAMESPACE),
            file,
            one.title,
            progress,
        )
        for file in one.files
    ]


def release(connection: "Connection", wanted: Sequence[Wanted]) -> None:
    """Delete the Checkouts of files; incomplete fetches are cancelled."""
    from rdd.api.errors import ApiError
    from rdd.client.errors import ClientError

    for one in wanted:
        for file in one.files:
            path = f"{_CHECKOUTS}/{resource_name(one.tool, one.version, file)}"
            with contextlib.suppress(ApiError, ClientError):
                connection.request("DELETE", path)


def _write_resource(connection: "Connection", wanted: Object) -> None:
    from rdd.api.errors import ApiError
    from rdd.api.mediatypes import MERGE_PATCH

    try:
        connection.request("POST", _RESOURCES, body=_typed("Resource", wanted))
    except ApiError as error:
        if error.code == 404:
            raise CommandError(
                "the control plane fetches nothing: start it with the resource controller "
                "(`rdd service start` with --controllers=* or resource)"
            ) from error
        if error.reason != "AlreadyExists":
            raise
        path = f"{_RESOURCES}/{wanted['metadata']['name']}"
        present = get_or_none(connection, path) or {"spec": {}}
        if present["spec"].get("signature") == wanted["spec"].get("signature"):
            connection.request("PATCH", path, body=wanted, content_type=MERGE_PATCH)
            return
        # It cannot change: what was found with the other one does not hold any more.
        connection.request("DELETE", path)
        connection.request("POST", _RESOURCES, body=_typed("Resource", wanted))


def _create_checkout(connection: "Connection", wanted: Object) -> None:
    """Create a Checkout; one that has failed before is replaced, so that it is tried at once."""
    from rdd.api.errors import ApiError

    name = wanted["metadata"]["name"]
    found = get_or_none(connection, f"{_CHECKOUTS}/{name}")
    if found is not None and _failure(found):
        with contextlib.suppress(ApiError):
            connection.request("DELETE", f"{_CHECKOUTS}/{name}")
        for state in follow(connection, _CHECKOUTS, name):
            if state is None or not _failure(state):
                break
    try:
        connection.request("POST", _CHECKOUTS, body=_typed("Checkout", wanted))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def _fetched(
    connection: "Connection", wanted: Object, file: CatalogueFile, title: str, progress: Progress
) -> FetchedFile:
    progress.phase(title, f"Fetching {file.name}")
    for found in follow(connection, _CHECKOUTS, wanted["metadata"]["name"]):
        if found is None or "deletionTimestamp" in found["metadata"]:
            if found is None:
                _create_checkout(connection, wanted)  # another command was faster
            continue
        status = found.get("status") or {}
        if failure := _failure(found):
            raise CommandError(f"{title}: {failure}; nothing was installed")
        if conditions_of(found).get("Ready", {}).get("status") == "True":
            digest = Digest.parse(status["digest"])
            return FetchedFile(file, Path(status["localPath"]), digest)
        progress.phase(title, status.get("progress") or f"Fetching {file.name}")
    raise AssertionError("a watch without a deadline has ended")


def _failure(checkout: Object) -> str:
    """Return why a Checkout has failed; empty while it has not."""
    ready = conditions_of(checkout).get("Ready", {})
    is_over = ready.get("status") == "False" and ready.get("reason") != "Fetching"
    return str(ready.get("message", "")) if is_over else ""


def _digest_of(resource: Object) -> str:
    spec, status = resource.get("spec") or {}, resource.get("status") or {}
    return str(spec.get("digest") or status.get("digest") or "")


def _typed(kind: str, wanted: Object) -> Object:
    return {"apiVersion": _API_VERSION, "kind": kind, **wanted}
