# SPDX-License-Identifier: Apache-2.0
"""A mirror of publishers' files in a thread, for programs that fetch: ranges, a gate, a log."""

import contextlib
import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from isal import igzip

GATED_BYTES = 3 << 20


class Publisher:
    """Files below the host names of their publishers."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        """Method, path and range of each request."""
        self.url = ""
        self.gate = threading.Event()
        """Unset: downloads stop after their first megabytes."""
        self.gate.set()

    def publish(self, url: str, content: bytes) -> str:
        """Offer a file under the URL of its publisher; return its digest."""
        parts = urlsplit(url)
        self.files[f"/{parts.netloc}{parts.path}"] = content
        return f"sha256:{hashlib.sha256(content).hexdigest()}"


def archive(programs: Mapping[str, Path]) -> bytes:
    """Return a compressed archive of programs by their paths in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, path in programs.items():
            info = tarfile.TarInfo(name)
            with path.resolve().open("rb") as file:
                info.size, info.mode = path.stat().st_size, 0o755
                tar.addfile(info, file)
    compressed: bytes = igzip.compress(buffer.getbuffer(), 0)
    return compressed


@contextlib.contextmanager
def publishing() -> Iterator[Publisher]:
    """Serve a publisher on a port of 127.0.0.1."""
    found = Publisher()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            found.requests.append(f"{self.command} {self.path} {wanted}".strip())
            content = found.files.get(urlsplit(self.path).path)
            start = int(wanted.removeprefix("bytes=").rstrip("-") or 0) if content else 0
            self.send_response(404 if content is None else 206 if start else 200)
            body = memoryview(content or b"")[start:]
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"one"')
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content or b'') - 1}/*")
            self.end_headers()
            if self.command != "GET":
                return
            with contextlib.suppress(OSError):  # the client was interrupted
                if not found.gate.is_set():
                    self.wfile.write(body[:GATED_BYTES])
                    found.gate.wait(120)
                    body = body[GATED_BYTES:]
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        found.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
