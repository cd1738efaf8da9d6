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

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from rdd.api import errors
from rdd.client.errors import Unreachable
from rdd.client.objects import Event
from rdd.client.resources import ApiResource
from rdd.client.transport import Keep

if TYPE_CHECKING:
    from rdd.client.aio import Client

log = logging.getLogger("rdd.client")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0


class Backoff:
    """Growing pauses between attempts, reset by success."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._next_s = FIRST_PAUSE_S

    def reset(self) -> None:
        """The last attempt was good."""
        self._next_s = FIRST_PAUSE_S

    async def pause(self) -> None:
        """Wait; half of it is chance, so that many clients do not return at once."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, LONGEST_PAUSE_S)
        await self._sleep(pause_s * (0.5 + random.random() / 2))


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
    backoff = Backoff(client.sleep)
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
        await backoff.pause()


def _report(resource: ApiResource, message: str, reported: str) -> str:
    if message != reported:
        log.debug("following %s: %s", resource.qualified, message)
    return message
