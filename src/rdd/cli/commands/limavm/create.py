# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm create`: create a virtual machine from a template.

A template file becomes a ConfigMap with the name of the LimaVM, which then owns it. The
ConfigMap is deleted again if the LimaVM cannot be created.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.connection import get_or_none, segment
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_is_name = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch


def run(call: Call) -> int:
    name, template = call.args
    namespace = call.flags.text("namespace")
    is_dry_run, start = call.flags.truth("dry-run"), call.flags.truth("start")
    with limavm.connection_for(call) as connection, shown(call) as progress:
        path = _file(connection, namespace, template)
        with _source(call, connection, namespace, name, template, path) as source:
            body = {
                "apiVersion": f"{names.LIMA_GROUP}/{names.VERSION}",
                "kind": "LimaVM",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"running": start, "templateRef": {"name": source["metadata"]["name"]}},
            }
            vm: Object = connection.request(
                "POST",
                limavm.collection_of(namespace),
                query={"dryRun": "All"} if is_dry_run else None,
                body=body,
            )
            if path is not None and not is_dry_run:
                own(connection, vm, source)
        call.log.info(
            f"LimaVM {quote(name)} created in namespace {quote(namespace)} "
            f"with template ConfigMap {quote(source['metadata']['name'])}"
        )
        if start and call.flags.truth("wait") and not is_dry_run:
            is_met = limavm.unless_revoked(vm, limavm.is_running)
            limavm.wait(call, connection, vm, is_met, until="running", progress=progress)
    return 0


def _file(connection: "Connection", namespace: str, template: str) -> Path | None:
    """Return the template file; None if a ConfigMap is meant. Raises CommandError if ambiguous."""
    if template.startswith("template:") or "://" in template:
        raise CommandError(
            f"{quote(template)} is not a file or a ConfigMap; save the template to a file first "
            "(Lima: `limactl template copy`, a URL: `curl -fLO`)"
        )
    path = Path(template)
    if "/" in template or not _is_name(template):
        return path
    if not path.is_file():
        return None
    if get_or_none(connection, f"{config_maps(namespace)}/{segment(template)}") is None:
        return path
    raise CommandError(
        f"{quote(template)} is a file and also a ConfigMap in namespace {quote(namespace)}; "
        f"write ./{template} for the file"
    )


@contextlib.contextmanager
def _source(
    call: Call,
    connection: "Connection",
    namespace: str,
    name: str,
    template: str,
    path: Path | None,
) -> Iterator[Object]:
    """Provide the template ConfigMap; delete one created from a file if the block fails."""
    if path is None:
        yield {"metadata": {"name": template}}
        return
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"failed to read template file {quote(template)}: {reason}") from error
    made: Object = connection.request(
        "POST",
        config_maps(namespace),
        body={"metadata": {"name": name, "namespace": namespace}, "data": {"template": text}},
    )
    is_needed = False
    try:
        yield made
        is_needed = not call.flags.truth("dry-run")
    finally:
        if not is_needed:
            call.log.warning("Cleaning up created ConfigMap")
            options = {"preconditions": {"uid": made["metadata"]["uid"]}}
            connection.request("DELETE", f"{config_maps(namespace)}/{segment(name)}", body=options)


def own(connection: "Connection", vm: Object, source: Object) -> None:
    """Make the LimaVM the owner of the ConfigMap."""
    from rdd.api.mediatypes import MERGE_PATCH

    reference = {
        "apiVersion": vm["apiVersion"],
        "kind": vm["kind"],
        "name": vm["metadata"]["name"],
        "uid": vm["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = source["metadata"]
    connection.request(
        "PATCH",
        f"{config_maps(metadata['namespace'])}/{metadata['name']}",
        body={"metadata": {"ownerReferences": [reference]}},
        content_type=MERGE_PATCH,
    )


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{segment(namespace)}/configmaps"
