# SPDX-License-Identifier: Apache-2.0
"""Screens that need more than an engine: a registry, a Git server, a scanner, k3s, a guest.

The registry, Git and the guest are real. The scanner and k3s (tests/k3s.py), which build machines
do not have, are stand-ins.
"""

import hashlib
import http.server
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.dashboard.chromium import Chromium, Tab
from tests.dashboard.desktop import IMAGE, Desktop, desktop
from tests.e2e.service.service_world import World
from tests.programs import DEVNULL, TIMEOUT_S, run_program, start_program
from tests.publisher import publishing

from rdd.vm.drivers.kubernetes_files import program_of

IN_ORDER = True  # one window; Kubernetes restarts the engine, so it comes last

ROOT = Path(__file__).parents[2]
RELEASE = "v1.33.7+k3s3"
VULNERABILITY = {
    "VulnerabilityID": "CVE-2026-0001",
    "PkgName": "libhole",
    "InstalledVersion": "1.0",
    "FixedVersion": "1.1",
    "Severity": "HIGH",
    "Title": "A <b>hole</b>",
    "PrimaryURL": "javascript:alert(1)",
}
REPORT = {"Results": [{"Target": "x", "Vulnerabilities": [VULNERABILITY]}]}
MACHINE = "vmType: qemu\ncpus: 1\nmemory: 256MiB\ndisk: 1GiB\n"


@pytest.fixture(scope="module")
def world(
    rdd_script: Path,
    kubectl: Path,
    built_page: Path,
    real_part: Callable[[str], Path],
    guests: Path,
    guest_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desktop]:
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables", "docker-registry", "git"):
        real_part(name)
    programs = tmp_path_factory.mktemp("programs")

    def prepare(service: World) -> None:
        executable(programs / "trivy", f"cat <<'END'\n{json.dumps(REPORT)}\nEND\n")
        service.variables |= {
            "PATH": f"{programs}:{os.environ['PATH']}:/usr/sbin:/sbin",
            "RDD_GUEST_IMAGE": str(guests / "small"),
            "RDD_CACHE_DIR": str(guest_cache),
        }
        python = f"env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable}"
        executable(program_of(RELEASE, service.environment()), f'exec {python} -m tests.k3s "$@"\n')

    with desktop(rdd_script, kubectl, real_part("docker"), prepare) as made:
        yield made


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def page(world: Desktop, browser: Chromium) -> Iterator[Tab]:
    yield world.window(browser)


@pytest.fixture(autouse=True)
def no_problems(page: Tab) -> Iterator[None]:
    del page.problems[:]
    yield
    page.close_dialogs()
    assert page.problems == []


def transfer(page: Tab, verb: str) -> None:
    """Wait until the only transfer is done and has not failed."""
    page.until(
        "(e => e?.innerText.includes('Done') || e?.querySelector('.failed'))"
        "(document.querySelector('.transfer'))"
    )
    text = page.js("document.querySelector('.transfer').innerText")
    assert verb in text and "Done" in text, text


def dismiss(page: Tab) -> None:
    page.click(".transfer .button[aria-label^=Dismiss]")
    page.until("document.querySelector('.transfer') === null")


def engine_process(world: Desktop) -> int:
    """Return the first process of the engine's namespaces."""
    lima_home = world.service.instance.lima_home
    return int((lima_home / "rd" / "host.pid").read_text())


@contextmanager
def beside_engine(world: Desktop, port: int, *command: str | Path) -> Iterator[str]:
    """Run a server in the network of the engine; return its address when the port is open."""
    enter = ["nsenter", f"--net=/proc/{engine_process(world)}/ns/net"]
    sockets = Path(f"/proc/{engine_process(world)}/net/tcp")
    listening = re.compile(rf":{port:04X} \S+ 0A ")
    with start_program([*enter, *command], stdout=DEVNULL, stderr=DEVNULL) as process:
        deadline = time.monotonic() + TIMEOUT_S
        while not listening.search(sockets.read_text()):
            assert process.poll() is None, f"{command[0]} has ended"
            assert time.monotonic() < deadline, f"{command[0]} does not listen"
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"


@pytest.fixture
def registry(world: Desktop, real_part: Callable[[str], Path], tmp_path: Path) -> Iterator[str]:
    config = tmp_path / "config.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\n"
        "http: {addr: '127.0.0.1:5000'}\n"
    )
    with beside_engine(world, 5000, real_part("docker-registry"), "serve", config) as address:
        yield address


def test_image_is_pushed_and_pulled(page: Tab, world: Desktop, registry: str) -> None:
    name = f"{registry}/team/tool:1"
    world.docker("tag", IMAGE, name)
    page.go("images")
    page.shows(f"{registry}/team/tool")
    page.act(name, "Push")
    transfer(page, "Push")
    dismiss(page)
    world.docker("rmi", name)
    page.hides("team/tool")
    page.click(".toolbar button", "Pull")
    page.fill("dialog [name=reference]", name)
    page.click("dialog button[type=submit]")
    transfer(page, "Pull")
    page.shows(f"{registry}/team/tool")
    dismiss(page)
    world.docker("rmi", name)


def test_image_is_built_from_git(page: Tab, world: Desktop, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo from-git-$((6*7))\n")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "x"),
        ("clone", "-q", "--bare", ".", str(tmp_path / "tool.git")),
        ("--git-dir", str(tmp_path / "tool.git"), "update-server-info"),
    ):
        run_program(["git", "-C", source, *words], check=True)
    page.go("images")
    server = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "-d", tmp_path, "5001")
    with beside_engine(world, 5001, *server) as address:
        page.click(".toolbar button", "Build")
        page.fill("dialog [name=context]", f"http://{address}/tool.git#main")
        page.fill("dialog [name=tags]", "fromgit:1")
        page.click("dialog button[type=submit]")
        transfer(page, "Build")
    page.click(".transfer button", "Log")
    page.until("document.querySelector('dialog .log')?.innerText.includes('from-git-42')")
    page.press("Escape")
    page.shows("fromgit")
    dismiss(page)
    world.docker("rmi", "fromgit:1")


def test_scan_result_is_shown_as_text(page: Tab, world: Desktop) -> None:
    page.go("images")
    page.shows("busybox")
    page.act(IMAGE, "Scan")
    transfer(page, "Scan")
    page.click(".transfer button", "Result")
    page.shows("CVE-2026-0001", "libhole", "1.1", "A <b>hole</b>")
    assert (
        page.js("document.querySelectorAll('dialog b.hole, dialog a[href^=javascript]').length")
        == 0
    )
    page.press("Escape")
    dismiss(page)


PIECE = bytes(20_000)
PIECES = 500


class Slow(http.server.BaseHTTPRequestHandler):
    """Sends a file in small pieces until the test has seen some, then all of the rest."""

    seen = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(PIECES * len(PIECE)))
        self.end_headers()
        for number in range(PIECES):
            self.wfile.write(PIECE)
            if number < PIECES - 1:
                self.seen.wait(0.1)

    def log_message(self, *_: object) -> None:
        pass


def test_download_is_on_home_while_it_runs(page: Tab, world: Desktop) -> None:
    page.go("home")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        digest = hashlib.sha256(PIECE * PIECES).hexdigest()
        spec = {
            "url": f"http://127.0.0.1:{server.server_address[1]}/big-file",
            "digest": f"sha256:{digest}",
        }
        api = "rdd.rancherdesktop.io/v1alpha1"
        items = [
            {"apiVersion": api, "kind": "Resource", "metadata": {"name": "big"}, "spec": spec},
            {
                "apiVersion": api,
                "kind": "Checkout",
                "metadata": {"name": "big", "namespace": "default"},
                "spec": {"resource": "big", "readonly": True},
            },
        ]
        manifest = world.service.home / "big.json"
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        world.service.kubectl("create", "-f", str(manifest))
        page.shows("Downloads", "big")
        page.until("document.querySelector('.download [role=progressbar]').ariaValueNow >= 2")
        Slow.seen.set()
        page.until("document.querySelector('.download') === null")
        server.shutdown()
        thread.join()


def test_locked_settings_name_the_file_that_locks_them(page: Tab, world: Desktop) -> None:
    field = "[id='setting-proxy.httpProxy']"
    page.go("settings")
    page.until(f"document.querySelector({json.dumps(field)})?.disabled === false")
    name = f"{world.service.instance.name}.yaml"
    profile = world.service.home / ".config" / "rancher-desktop" / name
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text("app:\n  locked:\n    proxy:\n      httpProxy: ''\n")
    page.shows(f"Locked by {profile}:4.")
    assert page.js(f"document.querySelector({json.dumps(field)}).disabled")
    profile.unlink()
    page.until(f"document.querySelector({json.dumps(field)}).disabled === false")


def test_paused_machine_has_a_clear_state_and_wakes(page: Tab, world: Desktop) -> None:
    id_ = world.run("sleeper", "-v", "kept:/x")
    page.go("home")
    world.service.rdd("set", "idle.action=pause", "idle.afterSeconds=1")
    page.shows("Paused", "The first request of a client wakes the machine.")
    page.go("volumes")
    page.shows("kept")
    page.go("machines")
    page.shows("Paused")
    page.go("containers", id_, "stats")
    page.shows("The first request of a client wakes the machine.")
    page.go("containers")
    page.until("document.querySelector('.rows').innerText.includes('–')")
    world.service.rdd("set", "idle.action=none")
    page.until("/\\d %/.test(document.querySelector('.rows .row:not(.group)')?.innerText)")
    page.go("home")
    page.shows("Everything is running")
    world.remove_all()


def test_snapshot_is_created_restored_and_deleted(page: Tab, world: Desktop) -> None:
    world.docker("create", "--name", "before", IMAGE, "true")
    page.go("snapshots")
    page.shows("No snapshots")
    page.click(".toolbar .button.primary", "Create snapshot")
    page.fill("dialog [name=name]", "Bad Name")
    page.click("dialog button[type=submit]")
    page.until("document.querySelector('.form-error')?.innerText.includes('metadata.name')")
    page.fill("dialog [name=name]", "saved")
    page.fill("dialog [name=description]", "as it was")
    page.click("dialog button[type=submit]")
    page.shows("Complete", "as it was")
    page.go("containers")
    page.shows("before")
    world.docker("rm", "before")
    page.shows("No containers")
    page.go("snapshots")
    page.click(".rows [aria-label='Restore saved']")
    page.shows("Restore saved?")
    page.confirm()
    page.shows("Snapshot restored")
    page.go("containers")
    page.shows("before")
    page.go("snapshots")
    page.click(".rows [aria-label='Delete saved']")
    page.confirm()
    page.shows("No snapshots")
    page.go("home")
    page.shows("Everything is running")
    world.remove_all()


def test_downloads_are_tools_files_and_monitors(page: Tab, world: Desktop) -> None:
    world.service.kubectl("delete", "checkouts,resources,urlmonitors", "--all", "-A")
    page.go("downloads")
    page.shows("compose", "rdd tools install compose", "Newest known")
    with publishing() as origin:
        content = os.urandom(8 << 20)
        origin.files = {"/%3Cb%3Efile%3C/b%3E": content, "/list": b"one"}
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        resource = {
            "apiVersion": "rdd.rancherdesktop.io/v1alpha1",
            "kind": "Resource",
            "metadata": {"name": "large"},
            "spec": {"url": f"{origin.url}/<b>file</b>", "digest": digest},
        }
        manifest = world.service.home / "resource.json"
        manifest.write_text(json.dumps(resource))
        page.click(".tabs a", "Files")
        page.shows("No files")
        world.service.kubectl("create", "-f", str(manifest))
        page.shows("large", "available", "<b>file</b>")
        assert origin.requests == []

        origin.gate.clear()
        page.click(".rows [aria-label='Fetch large']")
        page.shows("Fetch large?", origin.url)
        page.click("#confirm")
        page.shows(" of 8.0 MiB")
        page.click(".rows [aria-label^='Cancel'][aria-label$='large']")
        page.shows("available")
        assert world.objects("checkouts") == []
        origin.gate.set()
        page.click(".rows [aria-label='Fetch large']")
        page.click("#confirm")
        page.shows("cached", "8.39 MB")
        assert any("bytes=" in line for line in origin.requests)  # it has resumed

        page.click(".tabs a", "Monitors")
        page.shows("No monitors")
        page.click("button", "Create monitor")
        page.fill("dialog [name=name]", "versions")
        page.fill("dialog [name=url]", f"{origin.url}/list")
        page.fill("dialog [name=interval]", "1s")
        page.click("dialog button[type=submit]")
        page.until("document.querySelector('.form-error')?.innerText.includes('between 1m and')")
        page.fill("dialog [name=interval]", "24h")
        page.click("dialog button[type=submit]")
        page.shows("versions", "Fetched")
        del origin.files["/list"]
        page.click(".rows [aria-label='Check now versions']")
        page.shows("NotFound")
        page.act("versions", "Suspend")
        page.shows("Suspended")
        page.act("versions", "Delete")
        page.click("#confirm")
        page.shows("No monitors")
    world.service.kubectl("delete", "resources,checkouts", "--all")


def test_machine_is_suspended_resumed_and_has_snapshots(page: Tab, world: Desktop) -> None:
    template = world.service.home / "vm.yaml"
    template.write_text(MACHINE)
    world.service.rdd("limavm", "create", "vm", str(template), "--start")
    page.go("machines", "default", "vm")
    page.shows("Started", "Suspend")
    page.click(".detail-head button", "Suspend")
    page.shows("suspended: resumes where it was")
    page.click(".tabs a", "Disk")
    page.shows("Snapshots", "Used on this computer")
    page.click(".card button", "Create snapshot")
    page.fill("dialog [name=name]", "12")
    page.click("dialog button[type=submit]")
    page.until("document.querySelector('.form-error')?.innerText.includes('12')")
    page.fill("dialog [name=name]", "good")
    page.click("dialog button[type=submit]")
    page.shows("Snapshot created", "good")
    page.click(".detail-head button", "Resume")
    page.shows("Started", "while the machine is stopped")
    page.until("[...document.querySelectorAll('.card button')].every(b => b.disabled)")
    page.click(".tabs a", "Logs")
    page.until("document.querySelector('.logs-screen select')?.innerText.includes('serial.log')")
    page.click(".detail-head button", "Stop")
    page.confirm()
    page.shows("Stopped")
    page.click(".tabs a", "Disk")
    page.click(".card button", "Restore")
    page.shows("Restore good?")
    page.confirm()
    page.shows("Snapshot restored")
    page.click("[aria-label='Delete snapshot good']")
    page.confirm()
    page.shows("Snapshot deleted")
    page.until("!document.querySelector('[aria-label=\"Delete snapshot good\"]')")
    page.go("machines")
    page.act("vm", "Delete")
    page.confirm()
    page.until("!document.querySelector('.rows').innerText.includes('vm ')")
    page.until("document.querySelectorAll('.rows .row').length === 1")


def test_kubernetes_is_enabled_and_its_context_shown(page: Tab, world: Desktop) -> None:
    world.service.rdd("set", "kubernetes.version=1.33.7")
    page.go("kubernetes")
    page.shows("Kubernetes is disabled")
    page.click(".health button", "Enable")
    page.shows("This restarts the machine.")
    page.confirm()
    page.shows("Kubernetes is enabled", "kubectl --context rancher-desktop-")
    assert "Ready" in page.js("document.querySelector('.facts .badge.good').innerText")
    port = json.loads(world.service.kubectl("get", "app", "app", "-o", "json"))["status"][
        "kubernetesPort"
    ]
    assert page.js("document.querySelector('.facts a[href^=https]').href").endswith(f":{port}/")
    page.go("home")
    page.shows("Everything is running", str(port))
    page.go("ports")
    page.shows("Kubernetes API")
