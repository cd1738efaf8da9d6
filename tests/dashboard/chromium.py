# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium, headless, driven over the DevTools protocol.

The protocol is JSON over a WebSocket, so the tests need neither Node.js nor a driver program.
Everything waits for a state of the page; nothing waits for a time. Errors of the page, violations
of its CSP and requests to other hosts are collected in `Tab.problems`, and every test fails
with one.
"""

import base64
import itertools
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import websocket
from tests.programs import DEVNULL, start_program

TIMEOUT_S = 60.0

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root; the pages are ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--password-store=basic",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
    "--window-size=1280,800",
)


class Connection:
    """One WebSocket to a target; a thread reads it, so that events arrive while a test waits."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=None, suppress_origin=True)
        self._ids = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.on_event: Callable[[str, dict[str, Any]], None] = lambda _method, _params: None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                text = self._socket.recv()
            except (OSError, websocket.WebSocketException):
                text = ""
            if not text:
                with self._changed:
                    self._closed = True
                    self._changed.notify_all()
                return
            message = json.loads(text)
            if "id" in message:
                with self._changed:
                    self._answers[message["id"]] = message
                    self._changed.notify_all()
            else:
                self.on_event(message["method"], message["params"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and return its result."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        with self._changed:
            found = self._changed.wait_for(
                lambda: number in self._answers or self._closed, TIMEOUT_S
            )
            assert found and number in self._answers, f"{method}: no answer"
            answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """Close the WebSocket and end the thread."""
        self._socket.close()
        self._reader.join(10)


class Tab:
    """One page. `problems` has everything that must not happen on it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.sent: list[str] = []
        """Messages that the page sent over its WebSockets."""
        self.origin = ""
        connection.on_event = self._event
        for domain in ("Page", "Runtime", "Log", "Network"):
            connection.call(f"{domain}.enable")

    def _event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            shown = details.get("exception", {}).get("description", details["text"])
            self.problems.append(f"exception: {shown}")
        elif method == "Log.entryAdded":
            entry = params["entry"]
            if entry["source"] == "security" or "Content Security Policy" in entry["text"]:
                self.problems.append(f"{entry['source']}: {entry['text']}")
        elif method == "Network.responseReceived" and params["response"]["status"] >= 500:
            response = params["response"]
            self.problems.append(f"status {response['status']}: {response['url']}")
        elif method == "Network.webSocketFrameSent":
            self.sent.append(params["response"]["payloadData"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            self.requests.append(url)
            parts = urlsplit(url)
            is_network = parts.scheme in ("http", "https", "ws", "wss")
            if self.origin and is_network and parts.netloc != self.origin:
                self.problems.append(f"request to another host: {url}")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        return self._connection.call(method, **params)

    def open(self, url: str) -> None:
        """Open an address and wait until the page is loaded.

        An interface that another test adds at this moment (a bridge of an engine) ends requests in
        progress with ERR_NETWORK_CHANGED; a user's browser reloads by itself, too.
        """
        self.origin = urlsplit(url).netloc
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            error = self.call("Page.navigate", url=url).get("errorText", "")
            if error != "net::ERR_NETWORK_CHANGED" or time.monotonic() > deadline:
                break
        self.until("document.readyState === 'complete'")

    def js(self, expression: str) -> Any:
        """Evaluate an expression (a promise is awaited) and return its value."""
        result = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, expression: str, timeout_s: float = TIMEOUT_S) -> Any:
        """Wait until an expression is truthy, and return its value."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found = self.js(f"(v => v instanceof Node ? true : v)({expression})")
            except AssertionError:  # the page is being replaced
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, f"never true: {expression}\n{self.text()[-3000:]}"
            time.sleep(0.05)

    def text(self) -> str:
        """Return the visible text of the page."""
        return str(self.js("document.body?.innerText ?? ''"))

    def shows(self, *texts: str) -> None:
        """Wait until the page shows all texts."""
        for text in texts:
            self.until(f"document.body?.innerText.includes({json.dumps(text)})")

    def hides(self, text: str) -> None:
        """Wait until the page does not show a text."""
        self.until(f"!document.body.innerText.includes({json.dumps(text)})")

    def go(self, *parts: str) -> None:
        """Open a screen."""
        path = "/".join(parts)
        self.js(f"location.hash = {json.dumps('#/' + path)}")
        self.until(f"location.hash === {json.dumps('#/' + path)}")

    def click(self, selector: str, text: str = "") -> None:
        """Click the first visible element of a selector (with a text or a label).

        It must be where a mouse reaches it: in the window, and not covered. The check and the
        click are one step, so that nothing moves between them.
        """
        self.until(
            f"""(() => {{
              const wanted = {json.dumps(text)};
              const label = (e) => (e.innerText + "\\n" + (e.getAttribute("aria-label") ?? ""));
              for (const e of document.querySelectorAll({json.dumps(selector)})) {{
                const box = e.getBoundingClientRect();
                if (!box.width || e.disabled) continue;
                const parts = label(e).split("\\n").map((part) => part.trim());
                if (wanted && !parts.includes(wanted)) continue;
                e.scrollIntoView({{block: "nearest"}});
                const at = e.getBoundingClientRect();
                const top = document.elementFromPoint(at.x + at.width / 2, at.y + at.height / 2);
                if (!top || !(e.contains(top) || top.contains(e) && e.control)) continue;
                e.focus({{preventScroll: true}});
                e.click();
                return true;
              }}
            }})()"""
        )

    def act(self, name: str, action: str) -> None:
        """Choose an action in the menu of a row."""
        self.click(f".rows .row [aria-label={json.dumps(f'Actions of {name}')}]")
        self.click(".menu button", action)

    def confirm(self) -> None:
        """Agree to the question on screen."""
        self.click("#confirm")
        self.until("document.querySelector('dialog') === null")

    def close_dialogs(self) -> None:
        """Cancel all dialogs that a failed test may have left."""
        self.js(
            "document.querySelectorAll('dialog').forEach("
            "d => d.dispatchEvent(new Event('cancel', {cancelable: true})))"
        )

    def fill(self, selector: str, value: str) -> None:
        """Replace the content of a text field by typing; a dialog may be about to open."""
        found = f"document.querySelector({json.dumps(selector)})"
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            self.until(f"{found}?.closest('dialog:not([open])') === null")
            self.js(f"{found}.focus(); {found}.select?.()")
            if value:
                self.call("Input.insertText", text=value)
            else:
                self.press("Delete")
            if self.js(f"{found}?.value === {json.dumps(value)}"):
                return
            assert time.monotonic() < deadline, f"{selector} cannot be filled"

    def choose(self, selector: str, path: Path) -> None:
        """Choose a file in a file field."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        found = self.call(
            "Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})"
        )
        field = found["result"]["objectId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], objectId=field)

    def press(self, key: str, *, ctrl: bool = False, shift: bool = False) -> None:
        """Press a key."""
        modifiers = (2 if ctrl else 0) | (8 if shift else 0)
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Delete": 46}
        params: dict[str, Any] = {"key": key, "modifiers": modifiers}
        if len(key) == 1 and not ctrl:
            params["text"] = key
        elif key == "Enter":
            params["text"] = "\r"
        if key in codes:
            params["windowsVirtualKeyCode"] = codes[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", **params)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

    def type(self, text: str) -> None:
        """Press the keys of a text, one after the other."""
        for char in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=char, text=char)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=char)

    def resize(self, width: int, height: int) -> None:
        """Give the page another size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        """Prefer `dark` or `light`."""
        self.call(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def screenshot(self, path: Path) -> None:
        """Write what is visible as a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """Close the connection; the page ends with the browser."""
        self._connection.close()


class Chromium:
    """A browser with a profile of its own."""

    def __init__(self, port: int, browser: Connection) -> None:
        self._port = port
        self._browser = browser
        self._tabs: list[Tab] = []

    def tab(self, context: str | None = None) -> Tab:
        """Open a window; windows of one context share cookies."""
        params: dict[str, Any] = {
            "url": "about:blank",
            "newWindow": True,
        }  # a tab would hide others
        if context:
            params["browserContextId"] = context
        target = self._browser.call("Target.createTarget", **params)["targetId"]
        url = f"ws://127.0.0.1:{self._port}/devtools/page/{target}"
        tab = Tab(Connection(url))
        self._tabs.append(tab)
        return tab

    def download_to(self, folder: Path) -> None:
        """Keep downloads in a folder."""
        self._browser.call(
            "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder)
        )

    def context(self) -> str:
        """Return a new context: another profile."""
        return str(self._browser.call("Target.createBrowserContext")["browserContextId"])

    def close(self) -> None:
        """Close all connections and the browser."""
        for tab in self._tabs:
            tab.close()
        self._browser.call("Browser.close")
        self._browser.close()


@contextmanager
def chromium(program: Path, profile: Path, *flags: str) -> Iterator[Chromium]:
    """Run the browser, with further flags."""
    profile.mkdir(parents=True, exist_ok=True)
    active = profile / "DevToolsActivePort"
    active.unlink(missing_ok=True)
    own = (*FLAGS, *flags, f"--user-data-dir={profile}")
    command: list[str | Path] = [program, *own, "about:blank"]
    environment = {"HOME": str(profile), "PATH": "/usr/bin:/bin"}
    with start_program(command, env=environment, stdout=DEVNULL, stderr=DEVNULL) as process:
        deadline = time.monotonic() + TIMEOUT_S
        while not (active.exists() and len(active.read_text().split()) == 2):
            assert process.poll() is None, "the browser has ended"
            assert time.monotonic() < deadline, "the browser does not start"
            time.sleep(0.05)
        port, path = active.read_text().split()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/version", timeout=30):
            pass
        browser = Chromium(int(port), Connection(f"ws://127.0.0.1:{port}{path}"))
        try:
            yield browser
        finally:
            browser.close()
