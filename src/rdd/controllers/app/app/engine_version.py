# SPDX-License-Identifier: Apache-2.0
"""The engine of the toolbox that `containerEngine.version` selects, for the type `host`.

Before anything restarts, the version is fetched (with consent), verified, unpacked and installed in
the toolbox of the instance; until then, and after a failure, the running engine stays as it is.
The template then has the directory of the version, so a restart is all that a change takes, and
the data of the engine stays where it is. Without a version the engine of this host runs.

A file is described by a Resource. One whose publisher has no checksums is fetched only if its
Resource has a digest, which `rdd tools install --digest` gives it.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.controllers.app.app.failures import failure
from rdd.controllers.app.app.programs import RUNNING_FETCHES, TRANSIENT, Hold, is_approved
from rdd.controllers.app.app.reasons import settled
from rdd.controllers.app.commands import rdd_command
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.resources.tools import checkout_object, resource_name, resource_object
from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.fetch.failures import FetchFailure
from rdd.host.errors import FailureReason, HostError
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.kind import Kind
from rdd.kinds.resource import Checkout, Resource
from rdd.runtime import (
    Context,
    conditions_of,
    find_condition,
    is_controlled_by,
    resource_of,
    with_controller,
)
from rdd.toolbox.catalogue import (
    Catalogue,
    CatalogueFile,
    Tool,
    platform_of,
    sorted_versions,
)
from rdd.toolbox.errors import BrokenArchive
from rdd.toolbox.installation import FetchedFile, Toolbox

ENGINE = "engine"
"""The tool of the catalogue."""


def engine_directory(instance: Instance, version: str) -> Path:
    """Return the directory of an engine, existing or not."""
    return Toolbox(instance.tools_dir).directory(ENGINE, version)


def selectable_versions(instance: Instance, catalogue: Callable[[], Catalogue]) -> tuple[str, ...]:
    """Return the versions that the setting may have: known or installed ones. Blocking."""
    installed = [one.version for one in Toolbox(instance.tools_dir).installed(ENGINE)]
    return sorted_versions([*catalogue().tool(ENGINE).versions, *installed])


def environment_with_engine(env: ControllerEnvironment, app: App) -> Mapping[str, str]:
    """Return the environment in which the programs of the App's engine come first."""
    version = app.spec.container_engine.version
    if not version:
        return env.environment
    path = env.environment.get("PATH", os.defpath)
    directory = engine_directory(env.instance, version)
    return {**env.environment, "PATH": f"{directory}{os.pathsep}{path}"}


class EngineFetch:
    """Fetches and installs the engine of one App."""

    def __init__(
        self, context: Context, env: ControllerEnvironment, catalogue: Callable[[], Catalogue]
    ) -> None:
        self._context = context
        self._env = env
        self._catalogue = catalogue
        self._checkouts = context.cache.of(Checkout)
        self._rejected: dict[tuple[Digest, ...], str] = {}
        self._toolbox = Toolbox(env.instance.tools_dir)
        self._cache = Cache.of_user(env.environment, env.home)

    @cached_property
    def _tool(self) -> Tool:
        return self._catalogue().tool(ENGINE)  # parsed only if a version is selected

    async def hold(self, app: App, driver: str) -> Hold | None:
        """Return why the App must wait; None if the engine is installed or none is selected."""
        version = app.spec.container_engine.version
        await self._cancel_others(app, version)
        if not (app.spec.running and version) or driver != "host":
            return None
        if await asyncio.to_thread(self._toolbox.find, ENGINE, version) is not None:
            return None
        system = os.uname()
        try:
            files = self._tool.files(version, platform_of(system.sysname, system.machine))
            digests = [await self._described(app, version, file) for file in files]
        except HostError as error:
            return self._failed(str(error), "")
        except errors.NotFound:
            remedy = "service start --controllers=*"
            return self._failed(f"engine {version} is not installed", FailureReason.NOT_INSTALLED,
                                remedy)  # fmt: skip
        unverified = [
            file.name
            for file, digest in zip(files, digests, strict=True)
            if file.is_unverified and not digest
        ]
        if unverified:
            flags = " ".join(f"--digest {name}=sha256:…" for name in unverified)
            return self._failed(
                f"engine {version} is not installed, and its publisher has no checksums",
                FetchFailure.NO_CHECKSUM,
                f"tools install engine@{version} {flags}",
            )
        is_cached = all(digest and self._cache.find(Digest.parse(digest)) for digest in digests)
        if not (is_cached or is_approved(app)):
            remedy = rdd_command(self._env.instance, f"set --yes containerEngine.version={version}")
            message = f"engine {version} is not installed; to change that: {remedy}"
            return Hold(
                settled("NotInstalled", message), failure(FailureReason.NOT_INSTALLED, remedy)
            )
        return await self._fetch(app, version, files)

    async def _fetch(self, app: App, version: str, files: tuple[CatalogueFile, ...]) -> Hold | None:
        """Return the state of the Checkouts, created if missing; None when all is installed."""
        fetched: list[FetchedFile] = []
        hold: Hold | None = None
        for file in files:
            found = await self._checked_out(app, version, file)
            ready = find_condition(conditions_of(found), "Ready") or {}
            status = found.get("status") or {}
            reason = ready.get("reason", "")
            if ready.get("status") == "True":
                digest = Digest.parse(status["digest"])
                fetched.append(FetchedFile(file, Path(status["localPath"]), digest))
            elif reason in RUNNING_FETCHES:
                progress = status.get("progress") or f"Fetching {file.name}"
                hold = hold or Hold(settled("Fetching", progress), is_fetching=True)
            else:
                return self._failed(
                    str(ready.get("message", "")), "" if reason in TRANSIENT else reason
                )
        if hold is not None:
            return hold
        digests = tuple(one.digest for one in fetched)
        if digests in self._rejected:  # the same bytes would be rejected again
            return self._failed(self._rejected[digests], FailureReason.INVALID_SOURCE)
        try:
            await asyncio.to_thread(self._toolbox.install, self._tool, version, fetched)
        except BrokenArchive as error:
            self._rejected = {digests: str(error)}
            return self._failed(str(error), FailureReason.INVALID_SOURCE)
        except HostError as error:
            return self._failed(str(error), error.reason or FailureReason.INVALID_SOURCE)
        for file in files:
            await self._release(app, version, file)
        return None

    def _failed(self, message: str, reason: str, remedy: str = "") -> Hold:
        remedy = rdd_command(self._env.instance, remedy or "set containerEngine.version=")
        return Hold(settled("FetchFailed", message), failure(reason, remedy) if reason else None)

    async def _described(self, app: App, version: str, file: CatalogueFile) -> str:
        """Create the Resource of a file if it is missing; return the digest that it has.

        A file that cannot be verified has a Resource only if a user gave a digest.
        """
        wanted = resource_object(self._tool, version, file)
        name = wanted["metadata"]["name"]
        if file.is_unverified:
            listed = await self._context.client.list(
                resource_of(Resource), field_selector=f"metadata.name={name}"
            )
            found = next(iter(listed.items), {})
        else:
            found = await self._get_or_create(Resource, wanted, name, "")
        spec, status = found.get("spec") or {}, found.get("status") or {}
        return str(file.digest or spec.get("digest") or status.get("digest") or "")

    async def _checked_out(self, app: App, version: str, file: CatalogueFile) -> Object:
        namespace = app.spec.namespace
        wanted = checkout_object(self._tool, version, file, namespace)
        wanted = with_controller(wanted, app.raw)
        return await self._get_or_create(Checkout, wanted, wanted["metadata"]["name"], namespace)

    async def _get_or_create(
        self, kind: type[Kind], wanted: Object, name: str, namespace: str
    ) -> Object:
        client = self._context.client
        try:
            return await client.get(resource_of(kind), name, namespace=namespace)
        except errors.NotFound:
            pass
        try:
            return await client.create(resource_of(kind), wanted)
        except errors.AlreadyExists:
            return await client.get(resource_of(kind), name, namespace=namespace)

    async def _cancel_others(self, app: App, version: str) -> None:
        """Delete Checkouts of versions that are not selected any more: they would go on."""
        for found in list(self._checkouts.list(namespace=app.spec.namespace)):
            labels = found.metadata.labels
            is_ours = labels.get(names.TOOL) == ENGINE and is_controlled_by(found.raw, app.raw)
            if is_ours and labels.get(names.TOOL_VERSION) != version:
                await self._delete(found.metadata.name, app.spec.namespace)

    async def _release(self, app: App, version: str, file: CatalogueFile) -> None:
        await self._delete(resource_name(self._tool, version, file), app.spec.namespace)

    async def _delete(self, name: str, namespace: str) -> None:
        try:
            await self._context.client.delete(resource_of(Checkout), name, namespace=namespace)
        except errors.NotFound:
            pass
