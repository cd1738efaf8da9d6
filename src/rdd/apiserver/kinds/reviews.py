# SPDX-License-Identifier: Apache-2.0
"""Kinds that are questions: they are created, answered and never stored."""

from rdd.apiserver.kinds.builtin import BuiltinStrategy


class ReviewStrategy(BuiltinStrategy):
    """A question; what it means is decided by rdd.apiserver.auth.reviews."""

    verbs = ("create",)

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Questions need no name."""
        return []
