# SPDX-License-Identifier: Apache-2.0
"""Certificates of a daemon that runs for months.

Every start renews what has less than 30 days left; a daemon that is never restarted
looks twice a day. New connections get the new certificate, old ones live on, and the
kubeconfig names the new authority: clients that re-read it notice nothing.
"""

import asyncio
import logging
from collections.abc import Callable

from rdd.apiserver.auth.certificates import Issued

log = logging.getLogger("rdd.daemon")

INTERVAL_S = 12 * 3600.0


async def keep_renewed(
    current: Issued,
    ensure: Callable[[], Issued],
    use: Callable[[Issued], None],
    *,
    interval_s: float = INTERVAL_S,
) -> None:
    """Issue anew in time, until cancelled; `use` is called with what was issued."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            found = await asyncio.to_thread(ensure)
            if found.pair != current.pair:
                use(found)
                current = found
                log.info("the serving certificate was renewed")
        except Exception as error:  # there are 30 days to succeed
            log.warning("the serving certificate could not be renewed: %s", error)
