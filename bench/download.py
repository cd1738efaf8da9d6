# SPDX-License-Identifier: Apache-2.0
"""A download with its checksum, compared with curl and sha256sum.

    python -m bench.download [--mib 512] [--runs 5]

Server, disk and file are the same for both; the runs alternate. curl writes the file and
sha256sum reads it again, as a script would do. rdd hashes while it writes, and syncs. Memory is the
growth of the process over its size before the download, with aiohttp already imported.
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rdd.fetch.cache import Cache
from rdd.fetch.fetching import fetch

SPEED_BAR = 0.7
MEMORY_BAR_MIB = 30
_SERVER = """
import http.server, os, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[1], "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.flush()
            self.connection.sendfile(file)
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--child", nargs=3, metavar=("URL", "DIGEST", "ROOT"))
    options = parser.parse_args()
    if options.child:
        return _child(*options.child)
    with tempfile.TemporaryDirectory(prefix="rdd-download-") as folder:
        return _compare(Path(folder), options.mib, options.runs)


def _compare(folder: Path, mib: int, runs: int) -> int:
    source = folder / "source"
    with source.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))
    words = [sys.executable, "-c", _SERVER, str(source)]
    curl: list[float] = []
    ours: list[float] = []
    memory: list[float] = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/file"
            for number in range(runs):
                digest, seconds = _curl(url, folder / "curl")
                curl.append(seconds)
                command = [sys.executable, "-m", "bench.download", "--child", url, digest]
                done = subprocess.run(
                    [*command, str(folder / f"cache{number}")],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                taken, grown = map(float, done.stdout.split())
                ours.append(taken)
                memory.append(grown)
                subprocess.run(["rm", "-r", str(folder / f"cache{number}")], check=True)
        finally:
            server.kill()
    ratio = statistics.median(theirs / own for theirs, own in zip(curl, ours, strict=True))
    used = max(memory)
    sys.stdout.write(
        f"{mib} MiB, {runs} runs, load {os.getloadavg()[0]:.1f}\n"
        f"curl + sha256sum  {statistics.median(curl):.2f} s\n"
        f"rdd               {statistics.median(ours):.2f} s, {ratio:.2f} of the speed of curl "
        f"(bar {SPEED_BAR}), {used:.1f} MiB (bar {MEMORY_BAR_MIB})\n"
    )
    return int(ratio < SPEED_BAR or used > MEMORY_BAR_MIB)


def _curl(url: str, target: Path) -> tuple[str, float]:
    start = time.monotonic()
    subprocess.run(["curl", "-sS", "-o", str(target), url], check=True)
    done = subprocess.run(["sha256sum", str(target)], check=True, capture_output=True, text=True)
    seconds = time.monotonic() - start
    target.unlink()
    return f"sha256:{done.stdout.split()[0]}", seconds


def _child(url: str, digest: str, root: str) -> int:
    import aiohttp  # noqa: F401  # its memory is not that of the download

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    asyncio.run(fetch(url, digest, cache=Cache(Path(root)), report=lambda _: None))
    seconds = time.monotonic() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(f"{seconds} {grown / 1024}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
