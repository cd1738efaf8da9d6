# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: a function of bytes, and inputs to start from.

A target raises nothing for any input: what the code under test may raise (its own errors) is
caught in the target, anything else is a finding. An error in the log of rdd is one, too.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
ANSWER_S = 60.0
"""For a server that does not answer at all; no measurement."""


@dataclass(frozen=True, slots=True)
class Target:
    """A named function of bytes."""

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    tokens: Sequence[bytes] = ()
    """Pieces with a meaning, which mutations insert."""


def corpus(folder: str) -> list[bytes]:
    """Return the files of a folder of tests/data/fuzz."""
    return [path.read_bytes() for path in sorted((CORPUS / folder).iterdir())]


class Loop:
    """An event loop that lives as long as the process, for targets with sockets."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self.errors: list[str] = []

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end; fail if anything logged an error meanwhile."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.set_exception_handler(lambda _, found: self.errors.append(str(found)))
            logging.getLogger("rdd").addHandler(_Collector(self.errors))

        async def limited() -> Any:
            async with asyncio.timeout(ANSWER_S):
                return await coroutine

        self.errors.clear()
        found = self._loop.run_until_complete(limited())
        assert not self.errors, self.errors[0]
        return found

    def close(self) -> None:
        """End the loop; tests do, so that nothing is left open."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None


class _Collector(logging.Handler):
    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._errors.append(logging.Formatter().format(record))
