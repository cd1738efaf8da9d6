# SPDX-License-Identifier: Apache-2.0
"""The memory of a guest, in the status of LimaVMs."""

from rdd.kinds import constraints
from rdd.kinds.struct import UNSET, Struct, field


class GuestMemory(Struct):
    """What a guest uses, and what it costs."""

    used: str = field(
        "What the guest needs, without its page cache and free memory. "
        "No value if the guest does not report it.",
        default=UNSET,
        schema=constraints.QUANTITY,
    )
    host: str = field(
        "What the memory of the guest occupies on this host.",
        default=UNSET,
        schema=constraints.QUANTITY,
    )
