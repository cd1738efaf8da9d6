# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Debian's Chromium with a real daemon and engine and 1,000 containers.

python scripts/offline.py .venv/bin/python -m bench.dashboard [CONTAINERS]

Ten containers run. Measured: first contentful paint of the list in a warm browser, the time from
the engine's own timestamp of an event to the change in the DOM, JavaScript heap and DOM nodes,
the memory that the page costs the daemon, and the daemon's wake-ups before there is a page, while
it is hidden and after it is closed.
"""

import http.client
import json
import re
import shutil
import socket
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from tests.dashboard.chromium import Chromium, Tab, chromium
from tests.dashboard.desktop import IMAGE, Desktop, desktop

ROOT = Path(__file__).parents[1]
RUNNING = 10
EVENTS = 60


class Engine(http.client.HTTPConnection):
    """The engine's API over its socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=120)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))

    def post(self, path: str, body: object) -> None:
        self.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = self.getresponse()
        text = reply.read()
        assert reply.status < 300, text


def create(world: Desktop, count: int) -> None:
    """Create containers, a few at a time, and start the first ones."""

    def work(numbers: range) -> None:
        engine = Engine(world.service.instance.docker_socket)
        for number in numbers:
            name = f"bench-{number:04}"
            body = {"Image": IMAGE, "Cmd": ["sleep", "100000"]}
            engine.post(f"/containers/create?name={name}", body)
            if number < RUNNING:
                engine.post(f"/containers/{name}/start", {})
        engine.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [range(first, count, 4) for first in range(4)]))


# Records when a text appears in the list: MutationObserver runs before the next paint.
OBSERVE = """
window.seen = {};
new MutationObserver(() => {
  const now = Date.now();
  for (const row of document.querySelectorAll(".rows .name")) seen[row.innerText] ??= now;
}).observe(document.querySelector("main"), {childList: true, subtree: true, characterData: true});
undefined
"""


def paints(tab: Tab, url: str) -> list[float]:
    """Return the first contentful paint of ten loads, in ms."""
    found = []
    for _ in range(11):
        tab.call("Page.navigate", url="about:blank")
        tab.until("location.href === 'about:blank'")
        tab.call("Page.navigate", url=url)
        tab.until("document.querySelector('.rows .row') !== null")
        paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        found.append(float(tab.until(paint)))
    return found[1:]  # the first one fills the cache


def rows_after(tab: Tab, url: str) -> list[float]:
    """Return when the rows of the list were there, in ms after the navigation."""
    found = []
    for _ in range(5):
        tab.call("Page.navigate", url="about:blank")
        tab.until("location.href === 'about:blank'")
        tab.call("Page.navigate", url=url)
        tab.until("document.querySelector('.rows .row') !== null")
        found.append(float(tab.js("performance.now()")))
    return found


def latencies(tab: Tab, world: Desktop) -> list[float]:
    """Return the ms from the engine's timestamp of a rename to the new name in the DOM."""
    tab.js(OBSERVE)
    engine = Engine(world.service.instance.docker_socket)
    times = []
    for number in range(EVENTS):
        name = f"bench-{number % RUNNING:04}"
        new = f"event-{number:04}"
        begun = time.time()
        engine.post(f"/containers/{name}/rename?name={new}", {})
        seen = tab.until(f"window.seen[{json.dumps(new)}]")
        stamp = event_time(world, new, begun)
        times.append(seen - stamp * 1000)
        engine.post(f"/containers/{new}/rename?name={name}", {})
        tab.until(f"document.querySelector('.rows').innerText.includes({json.dumps(name)})")
    return times


def event_time(world: Desktop, name: str, since: float) -> float:
    """Return the engine's own time of the rename to a name."""
    until = f"{time.time() + 1:.3f}"
    text = world.docker(
        "events", "--since", f"{since - 1:.3f}", "--until", until,
        "--filter", "event=rename", "--format", "{{json .}}",
    )  # fmt: skip
    for line in text.splitlines():
        event = json.loads(line)
        if event["Actor"]["Attributes"]["name"] == name:
            return float(event["timeNano"]) / 1e9
    raise AssertionError(f"no event of {name}")


def switches(process: psutil.Process) -> int:
    """Return the voluntary context switches of all threads."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    lines = "".join((task / "status").read_text() for task in tasks)
    return sum(map(int, re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", lines, re.MULTILINE)))


HIDE = (
    "Object.defineProperty(document, 'hidden', {configurable: true, value: true});"
    "document.dispatchEvent(new Event('visibilitychange'))"
)


def wakeups(daemon: psutil.Process, seconds: int = 30) -> float:
    """Return the wake-ups of the daemon's threads per second."""
    time.sleep(5)  # what the last action caused
    started = switches(daemon)
    time.sleep(seconds)
    return (switches(daemon) - started) / seconds


def measure(world: Desktop, browser: Chromium, count: int) -> None:
    daemon = psutil.Process(world.service.pid())
    # Checks and probes of the daemon itself cause some, so they are counted without a page, too.
    never = wakeups(daemon)
    create(world, count)
    world.service.until(lambda: len(world.objects("containers")) >= count)
    before = daemon.memory_info().rss
    tab = world.window(browser)
    url = f"http://{tab.origin}/#/containers"
    first = paints(tab, url)
    rows = rows_after(tab, url)
    times = sorted(latencies(tab, world))
    tab.call("HeapProfiler.enable")
    tab.call("HeapProfiler.collectGarbage")
    heap = tab.call("Runtime.getHeapUsage")["usedSize"]
    nodes = tab.js("document.querySelectorAll('*').length")
    after = daemon.memory_info().rss
    tab.go("home")
    tab.until("document.querySelectorAll('.card .meter').length === 3")
    tab.js(HIDE)
    hidden = wakeups(daemon)
    tab.call("Page.navigate", url="about:blank")
    tab.until("location.href === 'about:blank'")
    closed = wakeups(daemon)
    print(f"containers                                  {count}, {RUNNING} running")
    print(f"first contentful paint, median of 10        {statistics.median(first):.0f} ms")
    print(f"rows of the list on screen, median of 5     {statistics.median(rows):.0f} ms")
    p99 = times[int(len(times) * 0.99)]
    p50 = statistics.median(times)
    print(f"engine event to DOM, p50 / p99 of {EVENTS}        {p50:.0f} / {p99:.0f} ms")
    print(f"JavaScript heap                             {heap / 1e6:.1f} MB")
    print(f"DOM nodes                                   {nodes}")
    print(f"memory of the daemon with the page          +{(after - before) / 2**20:.1f} MiB")
    print(f"wake-ups of the daemon, no page yet         {never:.2f} /s")
    print(f"wake-ups of the daemon, page hidden         {hidden:.2f} /s")
    print(f"wake-ups of the daemon, page closed         {closed:.2f} /s")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    fetched = ROOT / ".cache/parts/usr/bin/kubectl"
    kubectl, docker, program = (shutil.which(name) for name in ("kubectl", "docker", "chromium"))
    assert docker and program, "docker and chromium are needed"
    with (
        tempfile.TemporaryDirectory() as profile,
        chromium(Path(program), Path(profile)) as browser,
        desktop(ROOT / ".venv/bin/rdd", Path(kubectl or fetched), Path(docker)) as world,
    ):
        measure(world, browser, count)


if __name__ == "__main__":
    main()
