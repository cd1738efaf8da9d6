# SPDX-License-Identifier: Apache-2.0
"""The judgement on a context of the user: dead, so that ours may take its place, or left alone.

Docker contexts and kube contexts are found in different ways, and then judged here by the
same rule: only where nobody answers, or with 5xx, it is dead.
"""

import ssl
from dataclasses import dataclass

from rdd.host.http_probe import Address, status_of

_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to switch, and why."""

    should_switch: bool
    reason: str
    current: str = ""
    """The context in use now; what `make_current` is told it replaces."""


async def judge(
    who: str, address: Address, target: str, *, current: str, host_header: str = "localhost"
) -> Verdict:
    """Ask at the address of the context `current`; `who` names whom. Never raises."""
    try:
        status = await status_of(address, target, host_header=host_header)
    except ssl.SSLError as error:
        return Verdict(False, f"{who} refuses: {error}", current)
    except OSError as error:
        why = str(error) or "no answer in time"
        return Verdict(True, f"{who} does not answer: {why}", current)
    if status >= _SERVER_ERROR:
        return Verdict(True, f"{who} answers {status}", current)
    return Verdict(False, f"{who} answers", current)
