# SPDX-License-Identifier: Apache-2.0
"""The one request of containerd's API that a host agent sends: does it respond?

gRPC begins with the preface of HTTP/2, to which a server responds with its settings. That is
enough, and needs no gRPC.
"""

import asyncio
from pathlib import Path

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_NO_SETTINGS = b"\0\0\0\4\0\0\0\0\0"
_FRAME_HEAD_BYTES = 9


async def ping(socket: Path) -> None:
    """Return when containerd has responded. Raises OSError."""
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        writer.write(_PREFACE + _NO_SETTINGS)
        await writer.drain()
        if not await reader.read(_FRAME_HEAD_BYTES):
            raise ConnectionResetError("containerd closed the connection")
    finally:
        writer.close()
