# SPDX-License-Identifier: Apache-2.0
"""The page when something is lost, many, shared or forbidden."""

import http.server
import json
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.dashboard.chromium import Chromium, Tab
from tests.dashboard.desktop import Desktop

IN_ORDER = True  # the last tests stop the engine

MANY = 1000
SCROLLED = "document.querySelector('.rows').scrollTop"


@pytest.fixture(scope="module")
def page(world: Desktop, browser: Chromium) -> Iterator[Tab]:
    yield world.window(browser)


@pytest.fixture(autouse=True)
def no_problems(page: Tab) -> Iterator[None]:
    del page.problems[:]
    yield
    assert page.problems == []


def test_two_windows_show_the_same(page: Tab, world: Desktop, browser: Chromium) -> None:
    other = browser.tab()
    other.open(f"http://{page.origin}/")  # the session of the first window
    world.connected(other)
    for window in (page, other):
        window.go("containers")
        window.shows("No containers")
    id_ = world.run("shared", "--stop-timeout=0")
    for window in (page, other):
        window.until("/\\d %/.test(document.querySelector('.rows .row:not(.group)')?.innerText)")
    other.click(".rows [aria-label='Stop shared']")
    page.shows("exited")
    world.docker("rm", id_)
    for window in (page, other):
        window.shows("No containers")
    other.js("location.replace('about:blank')")


def test_viewer_sees_state_and_no_content(world: Desktop, browser: Chromium, page: Tab) -> None:
    id_ = world.run("watched", "-e", "PASSWORD=hunter2", command="echo secret; exec sleep 100000")
    viewer = world.window(browser, "--viewer", context=browser.context())
    viewer.go("containers")
    viewer.shows("watched", "running", "read only")
    assert not viewer.js("document.querySelector('.toolbar .button.primary')")
    assert not viewer.js("document.querySelector('[aria-label=\"Select watched\"]')")
    viewer.go("containers", id_)
    viewer.shows("Summary", "Environment", "PASSWORD")
    assert viewer.js("[...document.querySelectorAll('.tabs a')].map(a => a.innerText)") == [
        "Info",
        "Stats",
    ]
    assert "hunter2" not in viewer.js("document.documentElement.outerHTML")
    world.service.kubectl(
        "create", "clusterrolebinding", "logs",
        "--clusterrole=rdd:viewer-logs", "--group=rdd:viewers",
    )  # fmt: skip
    viewer.js("location.reload()")
    viewer.click(".tabs a", "Logs")
    viewer.until("document.querySelector('.line')?.innerText === 'secret'")
    viewer.go("home")
    viewer.shows("Everything is running")
    assert not viewer.js("document.querySelector('.health button')")
    assert viewer.problems == []
    world.docker("rm", "-f", id_)


def test_page_without_a_session_shows_how_to_log_in(browser: Chromium, page: Tab) -> None:
    stranger = browser.tab(browser.context())
    stranger.open(f"http://{page.origin}/")
    stranger.shows("This browser is not logged in", "rdd dashboard")
    assert stranger.problems == []


def test_hidden_page_asks_for_no_figures(page: Tab, world: Desktop) -> None:
    id_ = world.run("measured")
    page.go("containers")
    live = "/\\d %/.test(document.querySelector('.rows .row:not(.group)')?.innerText)"
    page.until(live)

    def show(is_hidden: bool) -> None:
        del page.sent[:]
        page.js(
            "Object.defineProperty(document, 'hidden', {configurable: true, value: "
            f"{json.dumps(is_hidden)}}}); document.dispatchEvent(new Event('visibilitychange'))"
        )

    show(is_hidden=True)
    world.service.until(lambda: any('"op":"cancel"' in text for text in page.sent))
    show(is_hidden=False)
    world.service.until(lambda: any('"op":"stats"' in text for text in page.sent))
    world.docker("rm", "-f", id_)
    page.shows("No containers")


def test_page_of_another_version_offers_to_reload(page: Tab, browser: Chromium) -> None:
    old = browser.tab()
    script = old.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="const real = fetch; window.fetch = (path, init) => real(path, path !== '/session'"
        " ? init : {...init, body: init.body.replace('\"protocol\":1', '\"protocol\":0')})",
    )["identifier"]
    old.open(f"http://{page.origin}/")
    old.shows("This page is of another version", "Reload the page")
    old.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    old.click("button", "Reload")
    old.shows("Everything is running")
    assert old.problems == []
    old.js("location.replace('about:blank')")


def test_published_port_gets_no_cookie(world: Desktop, browser: Chromium, page: Tab) -> None:
    answer = "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok"
    loop = f"while true; do printf '{answer}' | nc -l -p 80; done"
    id_ = world.run("recorder", "-p", "127.0.0.1:18186:80", command=loop)
    visitor = browser.tab()
    for host in ("127.0.0.1", "localhost"):
        visitor.open(f"http://{host}:18186/{host}")
        visitor.shows("ok")
    recorded = world.docker("logs", id_)
    assert "GET /127.0.0.1 HTTP/1.1" in recorded and "GET /localhost HTTP/1.1" in recorded
    assert "cookie" not in recorded.lower()
    world.docker("rm", "-f", id_)


def test_a_thousand_containers_cost_as_much_as_thirty(page: Tab, world: Desktop) -> None:
    page.go("containers")
    # Objects that nothing mirrors: bench/dashboard.py does the same with a thousand containers.
    items = [
        {
            "apiVersion": "containers.rancherdesktop.io/v1alpha1",
            "kind": "Container",
            "metadata": {"name": f"many-{number:04}", "namespace": "default"},
        }
        for number in range(MANY)
    ]
    manifest = world.service.home / "many.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    world.service.kubectl("create", "--validate=false", "-f", str(manifest))
    page.shows(f"{MANY:,} items", "many-0000")
    assert page.js("document.querySelectorAll('*').length") < 5000
    page.js(f"{SCROLLED} = 1e9")
    page.shows("many-0999")
    assert page.js("document.querySelectorAll('*').length") < 5000
    page.press("/")
    page.call("Input.insertText", text="many-0500")
    page.shows(f"1 of {MANY}")
    page.press("Escape")
    world.service.kubectl("delete", "containers", "--all", "--wait=false")
    page.shows("No containers")


class Stranger(http.server.BaseHTTPRequestHandler):
    """Whoever takes the port while the daemon is down."""

    seen: list[tuple[str, str, str]]
    statuses: list[int]
    """The status of the next answers, the only element."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        self.seen.append((f"POST {self.path}", str(self.headers), body))
        self.send_response(self.statuses[0])
        self.send_header("Set-Cookie", "rdd_session=stolen")
        self.end_headers()
        self.wfile.write(b'{"nonce": "x", "proof": "y", "csrf": "z"}')

    def do_GET(self) -> None:
        self.seen.append((f"GET {self.path}", str(self.headers), ""))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_killed_daemon_leaves_a_stale_page_that_recovers(page: Tab, world: Desktop) -> None:
    id_ = world.run("survivor")
    page.go("containers")
    page.shows("survivor", "running")
    port = urlsplit(f"http://{page.origin}").port
    assert port
    world.service.crash()
    page.shows("Connection lost", "may be out of date")
    page.shows("survivor")

    seen: list[tuple[str, str, str]] = []
    statuses = [200]
    handler = type("Recording", (Stranger,), {"seen": seen, "statuses": statuses})
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        page.click(".banner button", "Retry now")
        world.service.until(lambda: len(seen) > 0)
        page.until("document.querySelector('.banner')?.innerText.includes('another program')")
        page.go("networks")  # a part of the page that is not loaded yet
        page.shows("Networks", "another program")
        statuses[0] = 401  # the daemon of another user does not know the session
        page.click(".banner button", "Retry now")
        page.shows("This browser is not logged in")
        server.shutdown()
        thread.join()
    assert {request for request, _, _ in seen} == {"POST /session/hello"}
    assert not any("cookie" in headers.lower() for _, headers, _ in seen)
    assert all(set(json.loads(body)) == {"session", "nonce"} for _, _, body in seen)

    world.docker("stop", "-t", "0", id_)
    world.service.rdd("service", "start")
    world.connected(page)
    page.shows("bridge")  # of the screen that waited
    page.go("containers")
    page.hides("Connection lost")
    page.shows("survivor", "exited")
    # as if another version of the daemon had started
    page.js("document.querySelector('meta[name=rdd-build]').content = 'older'")
    world.service.crash()
    page.shows("Connection lost")
    world.service.rdd("service", "start")
    page.shows("The daemon was updated.", "Reload")
    page.click(".banner button", "Reload")
    page.hides("The daemon was updated.")
    page.shows("survivor")
    world.docker("rm", id_)
    page.shows("No containers")


def test_engine_is_stopped_and_started_from_home(page: Tab, world: Desktop) -> None:
    world.run("doomed")
    page.go("home")
    page.shows("1 of 1 running")
    page.click(".health button", "Stop")
    page.shows("1 running container will be stopped.")
    page.click("#confirm")
    page.shows("Stopped")
    page.go("containers")
    page.shows("No containers", "The engine is not running.")
    for screen, text in (
        ("images", "No images"), ("volumes", "No volumes"), ("networks", "No networks"),
        ("ports", "No published ports"), ("machines", "Stopped"),
        ("logs", "Daemon: rdd.stderr.log"),
    ):  # fmt: skip
        page.go(screen)
        page.shows(text)
    page.go("containers", "0" * 64)
    page.shows("This container does not exist any more.")
    page.go("home")
    page.click(".health button", "Start")
    page.shows("Everything is running")
