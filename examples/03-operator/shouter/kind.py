# SPDX-License-Identifier: Apache-2.0
"""The kind: a text that is to be shouted."""

from collections.abc import Sequence

from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class ShoutSpec(Struct):
    """What is wanted."""

    text: str = field("What to shout.")
    times: int = field("How often.", default=1)


class ShoutStatus(Struct):
    """What was done."""

    conditions: Sequence[Condition] = field("How it went.", default=UNSET, schema=BY_TYPE)


class Shout(Kind, group="demo.example.com"):
    """A text that is to be shouted."""

    spec: ShoutSpec = field("What is wanted.", default=UNSET)
    status: ShoutStatus = field("What was done.", default=UNSET)
