# SPDX-License-Identifier: Apache-2.0
"""The kind: a text to shout."""

from collections.abc import Sequence

from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class ShoutSpec(Struct):
    """The desired state."""

    text: str = field("The text.")
    times: int = field("Number of repetitions.", default=1)


class ShoutStatus(Struct):
    """The current state."""

    conditions: Sequence[Condition] = field("Progress of the Shout.", default=UNSET, schema=BY_TYPE)


class Shout(Kind, group="demo.example.com"):
    """A text to shout."""

    spec: ShoutSpec = field("The desired state.", default=UNSET)
    status: ShoutStatus = field("The current state.", default=UNSET)
