# SPDX-License-Identifier: Apache-2.0
"""All targets; a new one is an entry in TARGETS of a module of tests/fuzz/targets."""

from tests.fuzz.target import Target
from tests.fuzz.targets import archives, documents, objects, wire

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (documents, objects, archives, wire)
    for target in module.TARGETS
}
