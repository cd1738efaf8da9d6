# SPDX-License-Identifier: Apache-2.0
"""Objects whose stored value is damaged.

The store finds them by their checksum when the server starts. Such an object is in quarantine: it
is not served, because its content is unknown, and it is not absent either. So nothing takes its
place and nothing that belongs to it is removed:

    reads, updates and deletes of it are a 500 that names it; creating it is AlreadyExists
    lists and deletions of collections carry a warning
    the garbage collector keeps its dependents, because it cannot read the owner
    a namespace that contains it, and a CRD whose object it is, cannot be removed
    objects can be created in a namespace that is in quarantine

`rdd service quarantine` restores or removes it. Objects that the server's owner writes again at
each start (`ServerOptions.is_recreated`) are removed instead.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rdd.api import errors
from rdd.store.contract import DamagedRecord, Delete, Store, StoreError

if TYPE_CHECKING:
    from rdd.apiserver.http.request import Request
    from rdd.apiserver.resources import Resource

log = logging.getLogger("rdd.apiserver")

Damaged = Mapping[str, DamagedRecord]
"""Damaged objects by their key in the store."""

_NAMESPACES = "/registry/namespaces/"
_CRDS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_MAX_NAMED = 10
_FIX = "restore or remove it with `rdd service quarantine`"


def missing(resource: "Resource", namespace: str, name: str) -> errors.ApiError:
    """Return the error for an object that the cache does not have."""
    damaged = resource.cache.damaged
    if not damaged or resource.cache.key(namespace, name) not in damaged:
        return errors.NotFound.of(resource.plural, resource.group, name)
    where = f"{namespace}/{name}" if namespace else name
    return errors.InternalError.because(
        f'the stored value of {resource.plural} "{where}" is damaged; {_FIX}'
    )


def check_free(resource: "Resource", namespace: str, name: str) -> None:
    """Raise AlreadyExists if an object of this name is in quarantine."""
    damaged = resource.cache.damaged
    if damaged and resource.cache.key(namespace, name) in damaged:
        error = errors.AlreadyExists.of(resource.plural, resource.group, name)
        error.message += f", but its stored value is damaged; {_FIX}"
        raise error


def check_removable(damaged: Damaged, key: str) -> None:
    """Raise Forbidden if the namespace or CRD with this key still contains damaged objects."""
    if key.startswith(_NAMESPACES):
        part = f"/{key.removeprefix(_NAMESPACES)}/"
        held = [k for k in damaged if part in k.removeprefix("/registry")]
    elif key.startswith(_CRDS):
        plural, _, group = key.removeprefix(_CRDS).partition(".")
        held = [k for k in damaged if k.startswith(f"/registry/{group}/{plural}/")]
    else:
        return
    if held:
        raise errors.Forbidden(
            f"{key.rpartition('/')[2]} contains objects whose stored value is damaged "
            f"({_named(held)}); restore or remove them with `rdd service quarantine`"
        )


def warn(request: "Request", resource: "Resource", namespace: str | None) -> None:
    """Warn the client of a list that damaged objects are left out."""
    damaged = resource.cache.damaged
    if not damaged:
        return
    prefix = resource.cache.prefix + (f"{namespace}/" if namespace else "")
    held = [key.removeprefix(resource.cache.prefix) for key in damaged if key.startswith(prefix)]
    if held:
        request.warnings.append(
            f"{len(held)} of {resource.plural} are left out, because their stored value is "
            f"damaged: {_named(held)}; see `rdd service quarantine ls`"
        )


def _named(keys: list[str]) -> str:
    shown = ", ".join(sorted(keys)[:_MAX_NAMED])
    return shown if len(keys) <= _MAX_NAMED else f"{shown}, …"


async def drop_recreated(
    store: Store, damaged: dict[str, DamagedRecord], is_recreated: Callable[[str], bool]
) -> None:
    """Remove the damaged objects that are written again anyway; log the others."""
    for key in list(damaged):
        if not is_recreated(key):
            log.error("the stored value of %s is damaged: it is in quarantine", key)
            continue
        try:
            await store.commit([Delete(key)])
        except StoreError as error:
            log.error("the stored value of %s is damaged and was not removed: %s", key, error)
            continue
        del damaged[key]
        log.warning("the stored value of %s was damaged; it is written again", key)
