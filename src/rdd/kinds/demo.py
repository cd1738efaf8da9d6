# SPDX-License-Identifier: Apache-2.0
"""Demo: a message that is processed a number of times."""

from collections.abc import Sequence

from rdd.api import names
from rdd.kinds import constraints
from rdd.kinds.conditions import BY_TYPE, Condition
from rdd.kinds.kind import Kind
from rdd.kinds.struct import UNSET, Struct, field


class DemoSpec(Struct):
    """The message to process."""

    message: str = field("The message to process.", default=UNSET)
    count: int = field("Number of times to process it.", default=UNSET, schema=constraints.INT32)
    namespace: str = field("Without effect.", default="default")


class DemoStatus(Struct):
    """The progress of the processing."""

    processed_count: int = field(
        "Number of times the message was processed.", default=UNSET, schema=constraints.INT32
    )
    last_processed: str = field("When it was last processed, in RFC 3339 form.", default=UNSET)
    conditions: Sequence[Condition] = field(
        "The progress: Ready, Processing, Completed.", default=UNSET, schema=BY_TYPE
    )


class Demo(
    Kind,
    group=names.APP_GROUP,
    namespaced=False,
    schema=constraints.rule("self.metadata.name == 'demo'", "Demo resource must be named 'demo'"),
):
    """A message that is processed a number of times. A singleton named demo."""

    spec: DemoSpec = field("The message to process.", default=UNSET)
    status: DemoStatus = field("The progress of the processing.", default=UNSET)
