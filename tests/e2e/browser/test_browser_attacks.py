# SPDX-License-Identifier: Apache-2.0
"""Web pages that attack the API, in a real browser.

A page that the user visits runs in the user's browser, which reaches 127.0.0.1. It has no token;
what it could use is the name of a host (DNS rebinding), requests without a preflight (forms, simple
fetches), WebSockets, which have no same-origin policy, and credentials that a browser remembers.
Each attack has a control that shows that it would work: the same request of a legitimate client.
"""

import base64
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.machine.wire import Access
from tests.dashboard.chromium import Chromium, Tab, chromium
from tests.e2e.service.service_world import World

EVIL = "http://evil.example"
MAPS = "/api/v1/namespaces/default/configmaps"


class Quiet(http.server.BaseHTTPRequestHandler):
    """Serves an empty page on every path."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>evil</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def evil() -> Iterator[str]:
    """Serve the attacker's page; return its URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"{EVIL}:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def access(world: World) -> Access:
    world.rdd("svc", "start", "--controllers=")
    return Access.read(world.instance.config)


@pytest.fixture
def browser(real_part: Callable[[str], Path], tmp_path: Path, access: Access) -> Iterator[Chromium]:
    """Run a browser for which `.example` is this machine.

    It ignores certificate errors, as after a user has accepted the certificate: otherwise every
    attack would already fail there and prove nothing.
    """
    flags = (
        "--ignore-certificate-errors",
        "--no-proxy-server",
        "--host-resolver-rules=MAP *.example 127.0.0.1",
    )
    with chromium(real_part("chromium"), tmp_path / "profile", *flags) as made:
        yield made


def url(access: Access, path: str = "", host: str = "127.0.0.1", scheme: str = "https") -> str:
    return f"{scheme}://{host}:{access.port}{path}"


def fetch(address: str, options: dict[str, Any]) -> str:
    """Return a script that fetches and returns a status and a text, or the error."""
    return (
        f"fetch({json.dumps(address)}, {json.dumps(options)})"
        ".then(async r => [r.type, r.status, await r.text()], e => ['error', 0, String(e)])"
    )


def names(world: World) -> list[str]:
    found = json.loads(world.kubectl("get", "--raw", MAPS))
    return [item["metadata"]["name"] for item in found["items"]]


def opened(page: Tab, address: str) -> str:
    """Open an address and return the text of the page."""
    page.open(address)
    return page.text()


SIMPLE = {"method": "POST", "body": json.dumps({"metadata": {"name": "planted"}})}


def test_foreign_page_reads_and_writes_nothing_by_fetch(
    world: World, access: Access, browser: Chromium, evil: str
) -> None:
    page = browser.tab()
    page.open(evil)
    token = {"Authorization": f"Bearer {access.token}"}
    attacks: list[dict[str, Any]] = [
        {},
        {"credentials": "include"},
        {"headers": token},  # needs a preflight, which is not granted, even with a stolen token
        {"headers": token, "credentials": "include"},
        {"method": "DELETE"},
        SIMPLE,
        {**SIMPLE, "credentials": "include"},
        {**SIMPLE, "headers": token},
        {**SIMPLE, "headers": {"Content-Type": "application/json"}},
    ]
    for options in attacks:
        kind, status, text = page.js(fetch(url(access, MAPS), options))
        assert (kind, status) == ("error", 0), f"{options}: {text}"
    for options in ({"mode": "no-cors"}, {**SIMPLE, "mode": "no-cors", "credentials": "include"}):
        kind, status, text = page.js(fetch(url(access, MAPS), options))
        assert (kind, status, text) == ("opaque", 0, "")
    assert "planted" not in names(world)
    # The control: the same address answers a page of its own origin that has the token.
    own = browser.tab()
    own.open(url(access, "/version"))
    kind, status, _ = own.js(fetch(url(access, MAPS), {"headers": token}))
    assert (kind, status) == ("basic", 200)


def test_form_of_a_foreign_page_writes_nothing(
    world: World, access: Access, browser: Chromium, evil: str
) -> None:
    page = browser.tab()
    page.open(evil)
    for encoding in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        script = f"""new Promise(done => {{
            const frame = document.createElement('iframe'), form = document.createElement('form');
            frame.name = 'f' + Math.random(); document.body.append(frame);
            frame.onload = () => frame.src == '' && done('answered');
            Object.assign(form, {{action: {json.dumps(url(access, MAPS))}, method: 'POST',
                enctype: {json.dumps(encoding)}, target: frame.name}});
            const field = document.createElement('input');
            field.name = '{{"metadata": {{"name": "planted"}}, "x": "'; field.value = '"}}';
            form.append(field); document.body.append(form); form.submit();
            setTimeout(() => done('submitted'), 3000);
        }})"""
        assert page.js(script) in ("answered", "submitted")
    assert "planted" not in names(world)


def web_socket(address: str, token: str) -> str:
    """Return a script that opens a watch over a WebSocket and returns how that ended."""
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    protocols = [f"base64url.bearer.authorization.k8s.io.{encoded}", "binary.k8s.io"]
    return f"""new Promise(done => {{
        const socket = new WebSocket({json.dumps(address)}, {json.dumps(protocols)});
        socket.onopen = () => done('open');
        socket.onerror = () => done('error');
    }})"""


def test_web_socket_of_a_foreign_page_is_refused_even_with_a_token(
    access: Access, browser: Chromium, evil: str
) -> None:
    watch = f"{MAPS}?watch=1"
    page = browser.tab()
    page.open(evil)
    for host in ("127.0.0.1", "localhost"):
        address = url(access, watch, host, "wss")
        assert page.js(web_socket(address, access.token)) == "error"
        assert page.js(web_socket(address, "")) == "error"
    # The control: an upgrade of a page of the API passes, and fails only later.
    assert upgrade_status(access, watch, evil) == 403
    assert upgrade_status(access, watch, url(access)) == 200


def upgrade_status(access: Access, path: str, origin: str) -> int:
    """Return the status of the response to an upgrade that has an origin."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", access.port), timeout=120) as plain,
        tls.wrap_socket(plain) as stream,
    ):
        stream.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{access.port}\r\n"
            f"Origin: {origin.rstrip('/')}\r\nAuthorization: Bearer {access.token}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        return int(stream.recv(64).split()[1])


def test_rebound_name_reads_nothing(access: Access, browser: Chromium) -> None:
    """The attacker's name now resolves to 127.0.0.1, so that the API has the page's origin."""
    page = browser.tab()
    own = opened(page, url(access, "/version", "localhost"))
    assert "gitVersion" in own  # the control
    text = opened(page, url(access, "/version", "rebound.example"))
    assert "gitVersion" not in text
    token = {"Authorization": f"Bearer {access.token}"}
    for path in ("/version", MAPS, "/openapi/v2", "/healthz"):
        kind, status, _ = page.js(fetch(path, {"headers": token}))
        assert (kind, status) == ("basic", 421), path
    assert page.js(web_socket(f"wss://rebound.example:{access.port}{MAPS}?watch=1",
                                     access.token)) == "error"  # fmt: skip


def test_browser_remembers_no_credentials(access: Access, browser: Chromium) -> None:
    """Neither cookies, nor Basic authentication, nor answers to an earlier request."""
    page = browser.tab()
    page.open(url(access, "/version"))
    token = {"Authorization": f"Bearer {access.token}"}
    kind, status, text = page.js(fetch(MAPS, {"headers": token}))
    assert (kind, status) == ("basic", 200)
    assert page.js("document.cookie") == ""
    for options in (
        {},
        {"credentials": "include"},
        {"cache": "force-cache"},
        {"cache": "only-if-cached", "mode": "same-origin"},
    ):
        _, status, found = page.js(fetch(MAPS, options))
        assert status in (0, 401, 403, 504), options
        assert found != text
    with_password = f"https://admin:{access.token}@127.0.0.1:{access.port}{MAPS}"
    other = browser.tab()
    assert "ConfigMapList" not in opened(other, with_password)
    assert "ConfigMapList" not in opened(other, url(access, MAPS))


def test_page_cannot_frame_or_load_answers_as_scripts(
    access: Access, browser: Chromium, evil: str
) -> None:
    page = browser.tab()
    page.open(evil)
    for path in ("/version", "/openapi/v2", "/healthz"):
        script = f"""new Promise(done => {{
            const tag = document.createElement('script');
            tag.onload = () => done('loaded'); tag.onerror = () => done('error');
            tag.src = {json.dumps(url(access, path))}; document.body.append(tag);
            setTimeout(() => done('timeout'), 20000);
        }})"""
        assert page.js(script) == "error", path
