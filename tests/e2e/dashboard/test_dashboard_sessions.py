# SPDX-License-Identifier: Apache-2.0
"""The dashboard over the wire: links, cookies, Host, Origin, CSRF, restarts, rotation."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.dashboard.browser import Browser
from tests.e2e.service.service_world import World, own_suffix
from tests.e2e.service.service_world import world as make_world

START = ("service", "start", "--", "--controllers=", "--secure-port=0")


@pytest.fixture(scope="module")
def shared(
    rdd_script: Path, kubectl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """One daemon for the tests that leave it running."""
    for world in make_world(rdd_script, tmp_path_factory.mktemp("h"), kubectl):
        world.rdd(*START)
        yield world


@pytest.fixture
def world(rdd_script: Path, tmp_path: Path, kubectl: Path) -> Iterator[World]:
    """A home whose daemons find their ports free again after a restart."""
    yield from make_world(rdd_script, tmp_path / "h", kubectl, suffix=own_suffix())


def link(world: World, *flags: str) -> str:
    return world.rdd("dashboard", "--print-url", *flags).out.strip()


def logged_in(world: World, *flags: str) -> Browser:
    return Browser("").login(link(world, *flags))


NAMESPACES = "/k8s/api/v1/namespaces"


def test_link_opens_a_session_once(shared: World) -> None:
    url = link(shared)
    assert url.startswith(f"http://rdd-{shared.suffix}.localhost:")
    browser = Browser("")
    opened = browser.open(url)
    assert opened.status == 200
    attributes = {part.strip() for part in opened.headers["set-cookie"].split(";")[1:]}
    assert attributes == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert opened.headers["cache-control"] == "no-store"
    assert browser.bind().status == 200
    proved = browser.prove()
    assert proved.status == 200
    found = proved.json()
    assert (found["role"], found["instance"], found["protocol"]) == ("admin", shared.suffix, 1)
    assert browser.send("GET", NAMESPACES).json()["kind"] == "NamespaceList"
    again = Browser("").open(url)
    assert again.status == 403
    assert "set-cookie" not in again.headers
    assert "rdd dashboard" in again.text
    assert "text/html" in again.headers["content-type"]


@pytest.mark.parametrize("query", ["", "?code=", "?code=wrong", "?code=%00%ff", "?other=1"])
def test_wrong_link_is_a_page_with_403(shared: World, query: str) -> None:
    browser = logged_in(shared)
    answer = browser.send("GET", f"/login{query}", credentials=False)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_prefetch_and_head_do_not_use_a_link(shared: World) -> None:
    url = link(shared)
    browser = Browser(url.partition("/login")[0])
    path = "/login" + url.partition("/login")[2]
    assert browser.send("HEAD", path).status == 403
    assert browser.send("GET", path, headers={"Sec-Purpose": "prefetch"}).status == 403
    assert browser.login(url)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost", "rdd-2.localhost", "127.0.0.1:1", "rdd-9.localhost:{port}", ""],
)
def test_wrong_host_is_misdirected(shared: World, host: str) -> None:
    browser = logged_in(shared)
    port = browser.host.rpartition(":")[2]
    for path in ("/", NAMESPACES, "/session", "/login?code=x"):
        answer = browser.send("GET", path, headers={"Host": host.format(port=port)})
        assert answer.status in (400, 421), (path, host)
        assert "NamespaceList" not in answer.text


def test_loopback_address_works(shared: World) -> None:
    url = link(shared, "--loopback")
    assert url.startswith("http://127.0.0.1:")
    browser = Browser("").login(url)
    assert browser.send("GET", NAMESPACES).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://rdd-2.localhost:1"},
        {"Origin": "https://rdd-2.localhost"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
def test_foreign_origin_is_refused(shared: World, headers: dict[str, str]) -> None:
    browser = logged_in(shared)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}}
    path = "/k8s/api/v1/namespaces/default/configmaps"
    assert browser.send("POST", path, body=body, headers=headers).status == 403
    assert browser.send("GET", NAMESPACES, headers=headers).status == 403
    assert browser.send("POST", "/ticket", body={"path": "/ws"}, headers=headers).status == 403
    assert browser.send("POST", "/logout", headers=headers).status == 403
    assert browser.send("GET", f"{path}/foreign").status == 404


def test_cookie_alone_opens_nothing(shared: World) -> None:
    """A page on another port of the host, or a stranger on this port, may have the cookie."""
    thief = Browser(logged_in(shared).origin)
    victim = logged_in(shared)
    thief.cookie = victim.cookie
    for path in (NAMESPACES, "/session", "/ws", "/k8s/passthrough/engine/logs/0?ticket=x"):
        answer = thief.send("GET", path)
        assert answer.status in (400, 401), path
    assert thief.bind().status == 409
    thief.csrf = "guessed"
    assert thief.send("GET", NAMESPACES).json()["reason"] == "ProofRequired"
    thief.session, thief.key = victim.session, b"0" * 32
    assert thief.send("POST", "/ticket", body={"path": "/ws"}).status == 401
    nonce, answer = thief.hello()
    theirs = answer.json()["nonce"]
    wrong = {
        "session": thief.session,
        "clientNonce": nonce,
        "nonce": theirs,
        "proof": thief.proof("rdd-page", nonce, theirs),
    }
    assert thief.send("POST", "/session", body=wrong).status == 401
    # The daemon's own proof is no proof of a page.
    echoed = {**wrong, "proof": answer.json()["proof"]}
    assert thief.send("POST", "/session", body=echoed).status == 401
    assert victim.send("GET", NAMESPACES).status == 200


def test_csrf_value_without_its_cookie_opens_nothing(shared: World) -> None:
    browser, other = logged_in(shared), logged_in(shared)
    for cookie in ("", "forged", other.cookie, "é" * 8, '"'):
        stranger = Browser(browser.origin, cookie=cookie, csrf=browser.csrf)
        assert stranger.send("GET", NAMESPACES).status == 401
    assert browser.send("GET", NAMESPACES, headers={"X-Rdd-Csrf": ""}).status == 401


def test_proof_is_valid_once_and_for_one_address(shared: World) -> None:
    browser = logged_in(shared)
    nonce, answer = browser.hello()
    theirs = answer.json()["nonce"]
    body = {"session": browser.session, "clientNonce": nonce, "nonce": theirs, "protocol": 1}
    relayed = Browser("http://rdd-2.localhost:1", key=browser.key)
    body["proof"] = relayed.proof("rdd-page", nonce, theirs)
    assert browser.send("POST", "/session", body=body).status == 401
    body["proof"] = browser.proof("rdd-page", nonce, theirs)
    assert browser.send("POST", "/session", body=body).status == 200
    assert browser.send("POST", "/session", body=body).status == 401


def test_page_of_another_version_is_rejected(shared: World) -> None:
    answer = logged_in(shared).prove(protocol=99)
    assert answer.status == 409
    assert answer.json()["reason"] == "ProtocolMismatch"
    assert logged_in(shared).send("GET", "/assets/index-0ld.js").status == 404


def test_tickets_work_once_for_their_path(shared: World) -> None:
    browser = logged_in(shared)
    target = browser.ticket("/k8s/api/v1/namespaces?limit=1")
    page = Browser(browser.origin, cookie=browser.cookie)
    other = target.replace("limit=1", "limit=2")
    assert page.send("GET", other).status == 401
    assert page.send("GET", target).status == 401  # the attempt has used it
    target = browser.ticket("/k8s/api/v1/namespaces?limit=1")
    assert len(page.send("GET", target).json()["items"]) == 1
    assert page.send("GET", target).status == 401
    for path in ("/", "/login", "http://evil.example/", "/k8s/a b", "/k8s", 5, None):
        assert browser.send("POST", "/ticket", body={"path": path}).status == 400, path


def test_writes_and_identity(shared: World) -> None:
    browser = logged_in(shared)
    path = "/k8s/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "written"}}
    assert browser.send("POST", path, body=body).status == 201
    assert browser.send("POST", path, body=body, headers={"X-Rdd-Csrf": ""}).status == 401
    patch = {"Content-Type": "application/merge-patch+json"}
    data = json.dumps({"data": {"a": "b"}}).encode()
    assert browser.send("PATCH", f"{path}/written", data=data, headers=patch).status == 200
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = browser.send(
        "POST",
        "/k8s/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body=review,
        headers={"Impersonate-User": "someone", "Authorization": "Bearer wrong"},
    )
    assert found.json()["status"]["userInfo"]["username"] == "system-admin"
    assert browser.send("DELETE", f"{path}/written").status == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"session": 5, "nonce": "x"}', b"x" * 70_000]
)
def test_malformed_bodies_are_one_line(shared: World, body: bytes) -> None:
    browser = logged_in(shared)
    json_type = {"Content-Type": "application/json"}
    for path in ("/session/hello", "/session", "/session/bind", "/ticket"):
        answer = browser.send("POST", path, data=body, headers=json_type)
        assert answer.status in (400, 401, 409, 413), (path, answer.text)
        assert answer.json()["kind"] == "Status"
    assert browser.send("POST", "/session/hello", data=b"{}").status == 415


def test_every_response_forbids_what_the_page_does_not_need(shared: World) -> None:
    browser = logged_in(shared)
    for path in ("/", "/login", "/login.js", "/nothing.js", NAMESPACES, "/session", "/ticket"):
        headers = browser.send("GET", path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';"), path
        assert "unsafe" not in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers


def test_methods_and_unknown_paths(shared: World) -> None:
    browser = logged_in(shared)
    assert browser.send("POST", "/").status == 405
    assert browser.send("DELETE", "/session").status == 405
    assert browser.send("GET", "/logout").status == 405
    assert browser.send("GET", "/../../etc/passwd").status in (200, 404)
    assert "root:" not in browser.send("GET", "/assets/../../../etc/passwd").text


def test_logout_ends_the_session(shared: World) -> None:
    browser = logged_in(shared)
    assert browser.send("POST", "/logout").status == 204
    assert browser.send("GET", NAMESPACES).status == 401
    assert browser.hello()[1].status == 401
    kept = json.loads(shared.instance.dashboard_file.read_text())
    assert browser.session not in {each["id"] for each in kept["sessions"]}


def test_links_are_for_administrators(shared: World) -> None:
    config = str(shared.instance.config)
    for context in ("root", "user"):
        done = shared.try_rdd(
            "kubectl", "--kubeconfig", config, "--context", context,
            "create", "--raw", "/service/dashboard-login", "-f", "/dev/null",
        )  # fmt: skip
        assert (done.code == 0) is (context == "root"), done
    assert "loginUrl" not in done.out


def test_tools_are_listed(shared: World) -> None:
    browser = logged_in(shared)
    found = browser.send("GET", "/k8s/service/tools").json()["tools"]
    assert found == shared.rdd("tools", "ls", "-o", "json").json()
    assert {one["name"] for one in found} >= {"compose", "helm"}
    assert browser.send("POST", "/k8s/service/tools").status == 405


def test_files_are_private(shared: World) -> None:
    logged_in(shared)
    assert shared.instance.dashboard_file.stat().st_mode & 0o777 == 0o600
    text = shared.instance.dashboard_file.read_text()
    assert logged_in(shared).cookie not in text


def test_browser_gets_a_private_file_and_no_link_in_its_arguments(
    shared: World, tmp_path: Path
) -> None:
    opener, record = tmp_path / "opener", tmp_path / "arguments"
    opener.write_text(f'#!/bin/sh\necho "$@" > {record}\n')
    opener.chmod(0o755)
    shared.rdd("dashboard", BROWSER=str(opener))
    words = record.read_text().split()
    assert words == [shared.instance.dashboard_page.as_uri()]
    page = shared.instance.dashboard_page
    assert page.stat().st_mode & 0o777 == 0o600
    url = page.read_text().partition("url=")[2].partition('"')[0]
    assert Browser("").login(url)


def test_without_a_browser_the_link_is_printed(shared: World) -> None:
    done = shared.rdd("dashboard")
    assert Browser("").login(done.out.strip())
    done = shared.rdd("dashboard", BROWSER="/nonexistent/browser")
    assert Browser("").login(done.out.strip())


class _Stranger(http.server.BaseHTTPRequestHandler):
    """Another program on the dashboard's port: answers everything, records everything."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        records: list[Any] = self.server.records  # type: ignore[attr-defined]
        records.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
        body = b'{"nonce": "AAAAAAAAAAAAAAAAAAAAAA", "proof": "AAAA", "csrf": "x"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, *_: object) -> None:
        pass


def test_stranger_on_the_port_gains_nothing_from_a_page_that_reconnects(world: World) -> None:
    world.rdd(*START)
    browser = logged_in(world)
    port = int(browser.host.rpartition(":")[2])
    world.rdd("service", "stop")
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), _Stranger) as stranger:
        stranger.records = []  # type: ignore[attr-defined]
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        # The page asks for a proof first, gets none and sends nothing else.
        assert browser.prove().status == 200
        (record,) = stranger.records  # type: ignore[attr-defined]
        assert record[:2] == ("POST", "/session/hello")
        assert browser.cookie not in str(record)
        assert browser.csrf not in str(record)
        # At worst a request was already on its way with everything that the page has.
        browser.send("GET", NAMESPACES)
        stolen = Browser(browser.origin, cookie=browser.cookie, csrf=browser.csrf)
        # The daemon takes another port while this one is taken, and its proofs are for that one.
        world.rdd(*START)
        elsewhere = link(world)
        assert f":{port}/" not in elsewhere
        stolen.origin = elsewhere.partition("/login")[0]
        assert stolen.send("GET", NAMESPACES).json()["reason"] == "ProofRequired"
        nonce, answer = Browser(stolen.origin, session=browser.session).hello()
        assert answer.status == 200
        assert not browser.is_daemon(nonce, answer)  # it is for another port
        stranger.shutdown()
    world.rdd("service", "stop")


def test_open_page_reconnects_after_stop_and_crash(world: World) -> None:
    world.rdd(*START)
    browser = logged_in(world)
    before = browser.csrf
    for end in (lambda: world.rdd("service", "stop"), world.crash):
        end()
        world.rdd(*START)
        assert link(world).startswith(f"{browser.origin}/")
        assert browser.send("GET", NAMESPACES).json()["reason"] == "ProofRequired"
        assert browser.prove().status == 200
        assert browser.csrf != before
        assert browser.send("GET", NAMESPACES).status == 200


def test_daemon_of_another_user_on_the_port_ends_no_session(
    world: World, rdd_script: Path, kubectl: Path, tmp_path: Path
) -> None:
    """Its instance has the same name; it refuses what it cannot know, and learns no key."""
    world.rdd(*START)
    browser = logged_in(world)
    world.rdd("service", "stop")
    for other in make_world(rdd_script, tmp_path / "o", kubectl, suffix=world.suffix):
        other.rdd(*START)
        assert link(other).startswith(f"{browser.origin}/")
        assert browser.prove().status == 401
        assert browser.send("GET", NAMESPACES).json()["reason"] == "SessionEnded"
        other.rdd("service", "stop")
    world.rdd(*START)
    assert browser.prove().status == 200


def test_rotation_of_tokens_ends_all_sessions(world: World) -> None:
    world.rdd(*START)
    browser = logged_in(world)
    unused = link(world)
    world.rdd("service", "rotate-tokens")
    assert browser.send("GET", NAMESPACES).status == 401
    assert browser.prove().status == 401
    assert Browser("").open(unused).status == 403
    world.rdd("service", "stop")
    unused_session = logged_in_after_stop(world)
    world.rdd("service", "stop")
    world.rdd("service", "rotate-tokens")
    world.rdd(*START)
    assert unused_session.prove().status == 401


def logged_in_after_stop(world: World) -> Browser:
    world.rdd(*START)
    return logged_in(world)


@pytest.mark.parametrize("content", ["", "{", '{"sessions": [{}]}', '{"sessions": 5}', "\x00"])
def test_damaged_sessions_are_ignored(world: World, content: str) -> None:
    world.instance.tls_dir.mkdir(parents=True, mode=0o700)
    world.instance.dashboard_file.write_text(content)
    world.rdd(*START)
    assert logged_in(world).send("GET", NAMESPACES).status == 200


def test_viewer_sees_state_and_no_content(shared: World) -> None:
    viewer = logged_in(shared, "--viewer")
    assert viewer.prove().json()["role"] == "viewer"
    assert viewer.send("GET", NAMESPACES).status == 200
    assert viewer.send("GET", "/k8s/api/v1/events").status == 200
    assert viewer.send("GET", "/k8s/service/host").json()["machine"]["cpus"] > 0
    hidden = (
        "/k8s/api/v1/secrets", "/k8s/api/v1/configmaps",
        "/k8s/passthrough/engine/logs/0", "/k8s/passthrough/engine/exec/0",
        "/k8s/passthrough/engine/inspect/0", "/k8s/passthrough/engine/files/0",
        "/k8s/passthrough/engine/archive/0", "/k8s/passthrough/engine/top/0",
        "/k8s/passthrough/limavm/logs/default/rd", "/k8s/service/logs", "/k8s/service/bundle",
        "/k8s/service/tools",
        "/k8s/apis/rbac.authorization.k8s.io/v1/clusterroles", "/k8s/metrics",
    )  # fmt: skip
    for path in hidden:
        assert viewer.send("GET", path).status == 403, path
    login = viewer.send("POST", "/k8s/service/dashboard-login")
    assert login.status == 403
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "viewed"}}
    path = "/k8s/api/v1/namespaces/default/configmaps"
    assert viewer.send("POST", path, body=body).status == 403


def test_second_port_on_ipv6_belongs_to_the_daemon(shared: World) -> None:
    """A browser resolves the name to [::1], too."""
    browser = logged_in(shared)
    browser.address = "::1"
    try:
        assert browser.send("GET", NAMESPACES).status == 200
    except OSError:
        pytest.skip("no IPv6 on the loopback")
