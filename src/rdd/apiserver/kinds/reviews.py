# SPDX-License-Identifier: Apache-2.0
"""Kinds that are evaluated on creation and not stored."""

from rdd.apiserver.kinds.builtin_strategy import BuiltinStrategy


class ReviewStrategy(BuiltinStrategy):
    """A review; rdd.apiserver.auth.reviews evaluates it."""

    verbs = ("create",)

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Accept every name, because reviews need none."""
        return []
