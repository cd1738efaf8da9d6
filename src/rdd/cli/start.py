# SPDX-License-Identifier: Apache-2.0
"""`rdd start`: `rdd set running=true`."""

from rdd.cli.properties import Assignment
from rdd.cli.set import apply
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Start the App; it is made if there is none."""
    apply(call, [Assignment("running", "true")])
    return 0
