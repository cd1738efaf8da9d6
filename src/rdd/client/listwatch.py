# SPDX-License-Identifier: Apache-2.0
"""List, then watch, and list again when the watch expires: the source of every cache.

The stream of events:

    RELIST              a complete list follows
    ADDED …             its objects, including those of an earlier list
    SYNCED              the list is complete: objects that were not in it do not exist
    ADDED, MODIFIED,
    DELETED …           changes, each exactly once

    RELIST …            the resource version of the watch has expired

A watch that ends (a timeout, a server that restarts) is resumed at the last
resource version seen, without an event. Failures are retried with exponential
backoff for as long as the caller iterates. Only NotFound is raised: retrying does
not help while a resource is not served. Between RELIST and SYNCED the absence of
an object means nothing.

In-process the list is the beginning of the watch (`Transport.streams_state`): `keep` then drops
objects before they are copied or decoded, and a consumer pays only for those it wants.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from rdd.api import errors
from rdd.base.backoff import Backoff
from rdd.client.errors import Unreachable
from rdd.client.objects import Event
from rdd.client.resources import ApiResource
from rdd.client.transport import Keep

if TYPE_CHECKING:
    from rdd.client.aio import Client

log = logging.getLogger("rdd.client")

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 30.0


def make_backoff() -> Backoff:
    """Return the backoff for requests that failed or watches that ended."""
    return Backoff(FIRST_DELAY_S, LONGEST_DELAY_S)


async def list_and_watch(
    client: "Client",
    resource: ApiResource,
    *,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
    metadata_only: bool = False,
    keep: Keep | None = None,
) -> AsyncGenerator[Event, None]:
    """Yield the stream described above.

    `keep` applies to changes; it MAY apply to listed objects, too.
    """
    backoff = make_backoff()
    version = ""
    reported = ""
    streams_state = client.transport.streams_state
    while True:
        try:
            if not version:
                yield Event("RELIST", None, object_={})
            if not version and not streams_state:
                listed = ""
                async for page in client.pages(
                    resource,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    metadata_only=metadata_only,
                ):
                    for item in page.items:
                        yield Event("ADDED", None, object_=item)
                    listed = page.resource_version
                version, reported = listed, ""
                yield Event("SYNCED", None, object_={})
            changes = client.watch(
                resource,
                namespace=namespace,
                resource_version=version,
                label_selector=label_selector,
                field_selector=field_selector,
                metadata_only=metadata_only,
                with_state=not version,
                keep=keep,
            )
            async with aclosing(changes):
                async for event in changes:
                    backoff.reset()
                    if event.type != "BOOKMARK":
                        yield event
                        if not version:
                            continue  # a part of the state; only its end can be resumed from
                    elif not version:
                        if not event.ends_state:
                            continue
                        reported = ""
                        yield Event("SYNCED", None, object_={})
                    version = event.object["metadata"]["resourceVersion"]
        except errors.NotFound:
            raise
        except errors.ApiError as error:
            if error.code == 410:
                version = ""
            reported = _report(resource, error.message, reported)
        except Unreachable as error:
            reported = _report(resource, str(error), reported)
        # Also after success: a watch that ends at once must not be restarted in a busy loop.
        await client.sleep(backoff.next_s())


def _report(resource: ApiResource, message: str, reported: str) -> str:
    if message != reported:
        log.debug("watching %s: %s", resource.qualified, message)
    return message
