# SPDX-License-Identifier: Apache-2.0
"""Renewal of certificates in a daemon that runs for months.

Every start renews certificates with less than 30 days left; a running daemon checks twice a
day. New connections use the new certificate, existing ones continue, and the kubeconfig names
the new authority, so clients that read it again are not affected.
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
    """Renew a certificate before it expires, until cancelled; call `use` with each new one."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            found = await asyncio.to_thread(ensure)
            if found.pair != current.pair:
                use(found)
                current = found
                log.info("the serving certificate was renewed")
        except Exception as error:  # retried for 30 days
            log.warning("the serving certificate could not be renewed: %s", error)
