# SPDX-License-Identifier: Apache-2.0
"""Where a relay holds a piece of a stream on its way between two sockets.

A buffer copies the bytes through this process. A pipe moves their pages inside the kernel
(splice(2), Linux only), which takes a third less CPU time for bulk data, and is no cheaper for
small pieces.

Usually a piece is sent on at once, so connections share the holders: a connection keeps one
only while its receiver is slow, and an idle connection needs no memory and no further
descriptors.
"""

import fcntl
import os
import socket
import sys
from typing import Protocol

BULK_BYTES = 64 * 1024
"""A piece of this size is followed by more: worth a pipe."""

_BUFFER_BYTES = 256 * 1024
# The CPU time for 1 GB is 0.34 s with pipes of 64 KiB, 0.31 s with 256 KiB, 0.20 s with 1 MiB.
_PIPE_BYTES = 1024 * 1024
# Linux allows an unprivileged user 64 MiB of pipes; beyond that, all new ones are tiny.
_MAX_PIPES = 8
_MAX_FREE = 2


class Holder(Protocol):
    """Holds one piece."""

    size: int
    """The number of bytes to send."""

    def fill(self, source: socket.socket, shown: int) -> bytes:
        """Receive a piece and return its first bytes; `size` is 0 at the end of the stream.

        The holder MUST be empty. Raises OSError; BlockingIOError if there is nothing yet.
        """

    def drain(self, target: socket.socket) -> None:
        """Send the piece. Raises OSError; BlockingIOError if some of it is left."""

    def close(self) -> None:
        """Discard what is held, and release the resources."""


class Buffer:
    """Implements `Holder` in memory."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(_BUFFER_BYTES))
        self._start = 0
        self.size = 0

    def fill(self, source: socket.socket, shown: int) -> bytes:
        self._start, self.size = 0, source.recv_into(self._memory)
        return bytes(self._memory[: min(self.size, shown)]) if shown else b""

    def drain(self, target: socket.socket) -> None:
        while self.size:
            sent = target.send(self._memory[self._start : self._start + self.size])
            self._start += sent
            self.size -= sent

    def close(self) -> None:
        self._memory.release()


class Pipe:
    """Implements `Holder` in the kernel. Raises OSError where that is not possible."""

    count = 0
    """How many pipes exist."""

    size: int
    _output: int
    _input: int

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError("this system has no splice")
        if Pipe.count >= _MAX_PIPES:
            raise OSError("too many pipes are in use")
        self.size = 0
        self._output, self._input = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        Pipe.count += 1
        try:
            fcntl.fcntl(self._input, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            self.close()
            raise

    def fill(self, source: socket.socket, shown: int) -> bytes:
        data = source.recv(shown, socket.MSG_PEEK) if shown else b""
        self.size = _splice(source.fileno(), self._input, _PIPE_BYTES)
        return data

    def drain(self, target: socket.socket) -> None:
        while self.size:  # with a greater count the kernel would delay the last segment
            self.size -= _splice(self._output, target.fileno(), self.size)

    def close(self) -> None:
        os.close(self._output)
        os.close(self._input)
        Pipe.count -= 1


def _splice(source: int, target: int, count: int) -> int:
    if sys.platform != "linux":
        raise OSError("this system has no splice")
    return os.splice(source, target, count, flags=os.SPLICE_F_NONBLOCK)


_buffers: list[Buffer] = []
_pipes: list[Pipe] = []


def take(*, is_bulk: bool) -> Holder:
    """Return an empty holder: for bulk data a pipe if there is one."""
    if is_bulk:
        try:
            return _pipes.pop() if _pipes else Pipe()
        except OSError:
            pass
    return _buffers.pop() if _buffers else Buffer()


def give_back(holder: Holder) -> None:
    """Keep a holder for the next piece, or close it if it is not empty or one of many."""
    free: list[Buffer] | list[Pipe] = _buffers if isinstance(holder, Buffer) else _pipes
    if holder.size or len(free) >= _MAX_FREE:
        holder.close()
    else:
        free.append(holder)  # type: ignore[arg-type]
