# SPDX-License-Identifier: Apache-2.0
"""List, then watch, and list again when the place is lost: the ground every cache stands on.

The stream a caller sees:

    RELIST              a complete list follows
    ADDED …             its objects, known ones among them
    SYNCED              the list is complete: what was not in it does not exist
    ADDED, MODIFIED,
    DELETED …           changes, each exactly once

    RELIST …            the server no longer knows the place of the watch

A watch that merely ends (time-outs, a server that restarts) is resumed at the
last resource version seen, and the caller notices nothing. Failures are
repeated with growing pauses for as long as the caller listens; only NotFound
is raised, because a resource that is not served (any more) is nothing time
cures. Between RELIST and SYNCED the caller knows that it does not know.
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
    """The stream described above. `keep` applies to changes, not to what is listed."""
    backoff = make_backoff()
    version = ""
    reported = ""
    while True:
        try:
            if not version:
                yield Event("RELIST", b"", object_={})
                listed = ""
                async for page in client.pages(
                    resource,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    metadata_only=metadata_only,
                ):
                    for item in page.items:
                        yield Event("ADDED", b"", object_=item)
                    listed = page.resource_version
                version, reported = listed, ""
                yield Event("SYNCED", b"", object_={})
            changes = client.watch(
                resource,
                namespace=namespace,
                resource_version=version,
                label_selector=label_selector,
                field_selector=field_selector,
                metadata_only=metadata_only,
                keep=keep,
            )
            async with aclosing(changes):
                async for event in changes:
                    backoff.reset()
                    if event.type != "BOOKMARK":
                        yield event
                    version = event.object["metadata"]["resourceVersion"]
        except errors.NotFound:
            raise
        except errors.ApiError as error:
            if error.code == 410:
                version = ""
            reported = _report(resource, error.message, reported)
        except Unreachable as error:
            reported = _report(resource, str(error), reported)
        # A watch that ends as soon as it has begun must not be begun again at once, either.
        await client.sleep(backoff.next_s())


def _report(resource: ApiResource, message: str, reported: str) -> str:
    if message != reported:
        log.debug("following %s: %s", resource.qualified, message)
    return message
