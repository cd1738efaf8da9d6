# SPDX-License-Identifier: Apache-2.0
"""Every screen and its main actions in a real browser, against the real daemon and engine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.dashboard.chromium import Chromium, Tab
from tests.dashboard.desktop import IMAGE, Desktop

IN_ORDER = True  # one window for all; the tests clean up after themselves
AXE = Path(__file__).parents[2] / ".cache" / "dashboard" / "tools" / "axe.min.js"


@pytest.fixture(scope="module")
def page(world: Desktop, browser: Chromium) -> Iterator[Tab]:
    tab = world.window(browser)
    yield tab


@pytest.fixture(autouse=True)
def no_problems(page: Tab, world: Desktop) -> Iterator[None]:
    """Fail a test whose page violated its CSP, threw, or contacted another host."""
    del page.problems[:]
    yield
    world.remove_all()
    page.close_dialogs()
    assert page.problems == []


def row(text: str) -> str:
    """Return an expression for the row of a table that contains a text."""
    return (
        "[...document.querySelectorAll('.rows .row:not(.group)')]"
        f".find(r => r.innerText.includes({json.dumps(text)}))"
    )


def test_home_shows_health_figures_and_first_commands(page: Tab, world: Desktop) -> None:
    page.go("home")
    page.shows("Everything is running", "Container engine", "Connected", "Try this")
    page.until("document.querySelectorAll('.card .meter').length === 3")
    id_ = world.run("first")
    page.shows("1 of 1 running")
    page.hides("Try this")
    world.docker("rm", "-f", id_)
    page.shows("Try this")


def test_first_picture_is_small(page: Tab, built_page: Path) -> None:
    """What the browser fetches before the first screen, compressed, is far below 250 KB."""
    loaded = {url.rpartition("/assets/")[2] for url in page.requests if "/assets/" in url}
    assert not any("terminal" in name for name in loaded)
    sizes = [(built_page / "assets" / f"{name}.gz").stat().st_size for name in loaded]
    assert 10_000 < sum(sizes) < 100_000


def test_container_is_created_stopped_started_and_deleted(page: Tab, world: Desktop) -> None:
    page.go("containers")
    page.shows("No containers")
    page.click(".toolbar .button.primary", "Create container")
    page.fill("dialog [name=image]", "busybox:latest")
    page.fill("dialog [name=name]", "made-here")
    page.fill("dialog [name=ports]", "127.0.0.1:18181:80\n18182:81/udp")
    page.fill("dialog [name=command]", "sh\n-c\ntrap 'exit 0' TERM; sleep 100000 & wait")
    page.fill("dialog [name=labels]", "com.docker.compose.project=shop")
    page.click("dialog button[type=submit]")
    page.shows("Container created", "Project shop", "made-here", "running", "18181:80")
    assert world.docker(
        "inspect", "-f", "{{.Path}} {{index .Args 0}} {{.State.Running}}", "made-here"
    ) == ("sh -c true")
    page.until(f"/\\d %/.test({row('made-here')}?.innerText)")  # live figures
    page.act("made-here", "Pause")
    page.until(f"{row('made-here')}?.innerText.includes('paused')")
    page.act("made-here", "Unpause")
    page.until(f"{row('made-here')}?.innerText.includes('running')")
    page.click(".rows [aria-label='Stop made-here']")
    page.until(f"{row('made-here')}?.innerText.includes('exited')")
    page.click(".rows [aria-label='Start made-here']")
    page.until(f"{row('made-here')}?.innerText.includes('running')")
    page.act("made-here", "Restart")
    page.until(f"{row('made-here')}?.innerText.includes('running')")
    page.click(".rows [aria-label='Delete made-here']")
    page.shows("1 container of these is running and will be killed")
    page.confirm()
    page.shows("No containers")
    assert world.docker("ps", "-aq") == ""


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ports", "eighty", "Not a port: eighty"),
        ("labels", "=x", "Not a label"),
        ("image", "UPPER/case", "invalid"),
        ("image", "missing.example/none:1", ""),
    ],
)
def test_bad_input_of_the_form_is_explained(
    page: Tab, world: Desktop, field: str, value: str, message: str
) -> None:
    page.go("containers")
    page.click(".toolbar .button.primary", "Create container")
    page.fill("dialog [name=image]", "busybox")
    page.fill(f"dialog [name={field}]", value)
    page.click("dialog button[type=submit]")
    page.until("document.querySelector('.form-error')?.innerText")
    assert message.lower() in page.js("document.querySelector('.form-error').innerText").lower()
    page.press("Escape")
    page.until("document.querySelector('dialog') === null")
    assert world.docker("ps", "-aq") == ""


def test_many_containers_are_selected_and_acted_on(page: Tab, world: Desktop) -> None:
    for number in range(3):
        world.run(f"bulk-{number}", "--stop-timeout=0")
    page.go("containers")
    page.shows("bulk-0", "bulk-1", "bulk-2")
    for number in range(2):
        page.click(f".rows [aria-label='Select bulk-{number}']")
    page.shows("2 selected")
    page.click(".bulk button", "Stop")
    page.until("(document.body.innerText.match(/exited/g) ?? []).length === 2")
    assert world.docker("ps", "-q", "--filter", "name=bulk-2")
    page.click("[aria-label='Select all']")
    page.click(".bulk button", "Delete")
    page.confirm()
    page.shows("No containers")


def test_keyboard(page: Tab, world: Desktop) -> None:
    for name in ("alpha", "beta", "gamma"):
        world.docker("create", "--name", name, IMAGE, "true")
    page.go("containers")
    page.shows("alpha", "beta", "gamma")
    page.press("/")
    page.until("document.activeElement?.matches('[data-filter]')")
    page.call("Input.insertText", text="bet")
    page.hides("alpha")
    page.press("Escape")
    page.shows("alpha")
    for _ in range(3):
        page.press("j")
    page.press("k")
    page.until("document.querySelector('.row.current')?.innerText.includes('beta')")
    page.press("x")
    page.shows("1 selected")
    page.press("Enter")
    page.until("location.hash.startsWith('#/containers/')")
    page.shows("Summary")
    page.press("?")
    page.shows("Keyboard", "Filter the list")
    page.press("Escape")
    page.until("document.querySelector('dialog') === null")
    page.press("k", ctrl=True)
    page.until("document.activeElement?.getAttribute('role') === 'combobox'")
    page.call("Input.insertText", text="go to volumes")
    page.press("Enter")
    page.until("location.hash === '#/volumes'")
    page.press("k", ctrl=True)
    page.until("document.activeElement?.getAttribute('role') === 'combobox'")
    page.call("Input.insertText", text="stop rdd")
    page.press("Enter")
    page.shows("Stop the machine?", "No containers are running.")
    page.press("Escape")
    page.until("document.querySelector('dialog') === null")
    page.press("g")
    page.press("i")
    page.until("location.hash === '#/images'")
    world.remove_all()


def test_container_detail(page: Tab, world: Desktop, browser: Chromium, tmp_path: Path) -> None:
    program = (
        "seq 60000 | sed 's/^/line /'; printf '\\033[31mred\\033[0m plain\\n'; exec sleep 100000"
    )
    id_ = world.run(
        "detailed", "-e", "COLOUR=blue", "-v", "stuff:/stuff", "--label", "owner=me",
        "-p", "127.0.0.1:18183:80", command=program,
    )  # fmt: skip
    page.go("containers", id_)
    page.shows("Summary", "detailed", id_[:12], "COLOUR", "blue", "/stuff", "owner", "18183:80")
    page.shows("Networks", "bridge")
    page.click(".tabs a", "Logs")
    page.shows("50,000 lines", "line 60000")
    page.fill(".log-view [data-filter]", "red")
    page.shows("1 of 1 match")
    page.until("document.querySelector('.line.hit .f-c1 mark')?.innerText === 'red'")
    page.fill(".log-view [data-filter]", "LINE 599")
    page.shows("1 of 100 matches")
    page.until("document.querySelector('.line.hit')?.innerText === 'line 59900'")
    page.click("[aria-label='Previous match']")
    page.shows("100 of 100 matches", "line 59999")
    page.click("[aria-label='Next match']")
    page.shows("1 of 100 matches")
    page.click(".log-view .check", "Timestamps")
    page.until("/^20\\d\\d-/.test(document.querySelector('.line')?.innerText)")
    assert page.js("document.querySelectorAll('.line').length") < 150
    page.click(".tabs a", "Stats")
    page.until("document.querySelectorAll('.chart').length === 4")
    page.click(".tabs a", "Processes")
    page.shows("sleep 100000")
    page.click(".tabs a", "Inspect")
    page.shows('"HostConfig"', "COLOUR=blue")
    page.click(".tabs a", "Files")
    page.click(".file-name button", "www")
    page.shows("index.html", "6 B")
    browser.download_to(tmp_path)
    page.click("[aria-label='Download index.html']")
    world.service.until(lambda: (tmp_path / "index.html").exists())
    assert (tmp_path / "index.html").read_text() == "hello\n"
    page.js("location.hash = '#/containers'")
    world.remove_all()
    page.shows("No containers")


def test_terminal_types_resizes_and_reports_the_exit_code(page: Tab, world: Desktop) -> None:
    id_ = world.run("shell")
    page.go("containers", id_, "terminal")
    page.until("document.querySelector('.xterm-helper-textarea') !== null")
    page.until("document.querySelector('.xterm-accessibility')?.innerText.includes('#')")
    page.js("document.querySelector('.xterm-helper-textarea').focus()")
    page.type("printf '\\033[38;2;9;8;7m%s\\n' $((6*7))-ok")
    page.press("Enter")
    page.until("document.querySelector('.xterm-accessibility').innerText.includes('42-ok')")
    page.click(".tabs a", "Info")
    page.shows("Summary")
    page.click(".tabs a", "Terminal")  # the same shell with what it printed
    page.until("document.querySelector('.xterm-accessibility').innerText.includes('42-ok')")
    page.js("document.querySelector('.xterm-helper-textarea').focus()")
    page.resize(700, 600)
    page.type("exit 3")
    page.press("Enter")
    page.shows("The program ended with exit code 3.", "Reconnect")
    page.resize(1280, 800)
    page.click(".log-status button", "Reconnect")
    page.hides("exit code 3")
    world.remove_all()


def test_failed_action_is_shown(page: Tab, world: Desktop) -> None:
    world.docker("create", "--name", "broken", IMAGE, "/no/such/program")
    page.go("containers")
    page.click(".rows [aria-label='Start broken']")
    page.until("document.querySelector('.toast.bad')?.innerText.includes('no such file')")
    page.until(f"{row('broken')}?.querySelector('.badge.bad')")
    page.click(".toast button")
    world.remove_all()


def test_images_are_tagged_pulled_and_deleted(page: Tab, world: Desktop) -> None:
    world.docker("tag", IMAGE, "spare.example/team/tool:2.0")
    page.go("images")
    page.shows("spare.example/team/tool", "2.0", "unused", "in total")
    page.click(".toolbar button", "Pull")
    page.fill("dialog [name=reference]", "127.0.0.1:1/nothing:1")
    page.click("dialog button[type=submit]")
    page.until("document.querySelector('.transfer .failed')?.innerText.includes('127.0.0.1:1')")
    page.click(".transfer .button[aria-label^=Dismiss]")
    page.until("document.querySelector('.transfer') === null")
    world.docker("create", "--name", "user", IMAGE, "true")
    page.shows("1 container")
    page.click(".rows [aria-label='Delete spare.example/team/tool:2.0']")
    page.shows("1 image of these is in use", "(user)")
    page.confirm()
    page.hides("spare.example")
    assert "spare" not in world.docker("images")


def test_image_is_tagged_and_built(page: Tab, world: Desktop, tmp_path: Path) -> None:
    page.go("images")
    page.shows("busybox")
    page.act(IMAGE, "Tag…")
    page.fill("dialog [name=repoTag]", "mine.example/tool:7")
    page.click("dialog button[type=submit]")
    page.shows("mine.example/tool")
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo built-$((6*7))\n")
    page.click(".toolbar button", "Build")
    page.fill("dialog [name=context]", str(tmp_path))
    page.fill("dialog [name=tags]", "built:1")
    page.click("dialog button[type=submit]")
    page.until("document.querySelector('.transfer')?.innerText.includes('Done')")
    page.click(".transfer button", "Log")
    page.until("document.querySelector('dialog .log')?.innerText.includes('built-42')")
    page.press("Escape")
    page.click(".transfer .button[aria-label^=Dismiss]")
    page.until(f"{row('built')} !== undefined")
    world.docker("rmi", "built:1", "mine.example/tool:7")
    page.until(f"{row('built')} === undefined")


def test_networks_are_created_and_deleted(page: Tab, world: Desktop) -> None:
    page.go("networks")
    page.shows("bridge", "host", "none")
    page.click(".toolbar .button.primary", "Create network")
    page.fill("dialog [name=name]", "front")
    page.fill("dialog [name=subnet]", "172.31.7.0/24")
    page.click("dialog button[type=submit]")
    page.shows("Network created", "front", "172.31.7.0/24")
    world.docker("create", "--name", "member", "--network", "front", IMAGE, "true")
    page.until(f"{row('front')}?.innerText.includes('member')")
    world.remove_all()
    page.click(".rows [aria-label='Delete front']")
    page.confirm()
    page.until(f"{row('front')} === undefined")
    assert not page.js("document.querySelector(\"[aria-label='Delete bridge']\")")


def test_volume_is_browsed_backed_up_and_restored(
    page: Tab, world: Desktop, browser: Chromium, tmp_path: Path
) -> None:
    world.docker(
        "run", "--name", "writer", "-v", "kept:/x", IMAGE, "sh", "-c", "echo hello > /x/note.txt"
    )
    page.go("volumes")
    page.click(".rows [aria-label='Browse files kept']")
    page.shows("note.txt", "6 B")
    browser.download_to(tmp_path)
    page.click(".detail-head button", "Back up")
    world.service.until(lambda: list(tmp_path.glob("*.tar")) != [])
    [backup] = tmp_path.glob("*.tar")
    world.docker("rm", "writer")
    world.docker("run", "--name", "eraser", "-v", "kept:/x", IMAGE, "sh", "-c", "> /x/note.txt")
    page.click(".files [aria-label=Refresh]")
    page.shows("0 B")
    page.click(".detail-head button", "Restore…")
    page.choose("dialog [name=archive]", backup)
    page.click("dialog button[type=submit]")
    page.shows("Volume restored")
    page.click(".files [aria-label=Refresh]")
    page.shows("note.txt", "6 B")
    world.remove_all()
    page.go("volumes")
    page.click(".rows [aria-label='Delete kept']")
    page.confirm()
    page.until(f"{row('kept')} === undefined")


def test_logs_and_support_bundle(
    page: Tab, world: Desktop, browser: Chromium, tmp_path: Path
) -> None:
    page.go("logs")
    page.until("document.querySelectorAll('.logs-screen option').length > 1")
    page.until("document.querySelectorAll('.line').length > 1")
    browser.download_to(tmp_path)
    page.click(".logs-screen button", "Support bundle")
    world.service.until(lambda: list(tmp_path.glob("*.tar.gz")) != [])
    page.go("machines", "default", "rd", "logs")
    page.until("document.querySelectorAll('.logs-screen option').length > 0")
    page.until("document.querySelectorAll('.line').length > 0")


def test_volumes_are_created_and_deleted(page: Tab, world: Desktop) -> None:
    page.go("volumes")
    page.click(".toolbar .button.primary", "Create volume")
    page.fill("dialog [name=name]", "from-page")
    page.click("dialog button[type=submit]")
    page.shows("Volume created", "from-page")
    world.docker("create", "--name", "holder", "-v", "from-page:/x", IMAGE, "true")
    page.shows("holder")
    world.remove_all()
    page.hides("holder")
    page.click(".rows [aria-label='Delete from-page']")
    page.shows("All data in them is lost.")
    page.confirm()
    page.until(f"{row('from-page')} === undefined")


def test_ports_lead_to_their_owners(page: Tab, world: Desktop) -> None:
    world.run("server", "-p", "127.0.0.1:18184:80")
    page.go("ports")
    page.shows("127.0.0.1:18184", "80/tcp", "server", "open")
    assert page.js("document.querySelector('.rows a').href") == "http://127.0.0.1:18184/"
    world.remove_all()
    page.shows("No published ports")


def test_machines_and_kubernetes(page: Tab) -> None:
    page.go("machines")
    page.shows("rd", "machine of the App", "Started")
    page.click(".rows a.name")
    page.shows("Conditions", "Running", "True")
    page.go("kubernetes")
    page.shows("Kubernetes is disabled", "Enable")


def test_settings_are_checked_previewed_saved_and_undone(page: Tab, world: Desktop) -> None:
    page.go("settings")
    page.shows("virtualMachine.cpus", "This machine has", "containerEngine.name")
    page.press("/")
    page.call("Input.insertText", text="proxy http")
    page.hides("virtualMachine.cpus")
    page.shows("proxy.httpProxy")
    page.press("Escape")
    page.shows("virtualMachine.cpus")
    page.fill("[id='setting-virtualMachine.cpus']", "100000")
    page.until("document.querySelector('.setting .refused')?.innerText")
    assert page.js("document.querySelector('.apply-bar .primary').disabled")
    page.fill("[id='setting-virtualMachine.cpus']", "many")
    page.shows("This is not a number.")
    page.click(".apply-bar button", "Discard")
    page.until("document.querySelector('.apply-bar') === null")
    page.click("[id='setting-application.updates.enabled']")
    page.shows("Nothing is restarted.")
    page.click(".apply-bar button", "Apply")
    page.shows("Settings saved", "Set by")
    spec = world.objects("apps")[0]["spec"]
    assert spec["application"]["updates"]["enabled"] is False
    page.fill("[id='setting-proxy.httpProxy']", "http://proxy.example.com:3128")
    page.shows("This restarts the machine.")
    page.click(".apply-bar button", "Discard")
    page.go("activity", "history")
    page.shows("application.updates.enabled: true → false")
    page.click(".rows [aria-label='Undo application.updates.enabled']")
    page.confirm()
    page.shows("The change was undone", "false → true")
    assert world.objects("apps")[0]["spec"]["application"]["updates"]["enabled"] is True


def test_diagnostics_follow_reality_and_are_muted(page: Tab, world: Desktop) -> None:
    page.go("diagnostics")
    page.shows("No problems", "There is enough disk space")
    context = world.service.instance.name
    config = world.service.home / ".docker" / "config.json"
    before = config.read_text() if config.exists() else None
    config.write_text("{")
    failed = "document.querySelector('[data-check=docker-context] .badge.bad')"
    page.until(f"{failed} !== null")
    page.until("document.querySelector('.nav-badge')?.innerText === '1'")
    page.click("[data-check=docker-context] [aria-label='Mute: docker-context']")
    page.until("document.querySelector('.nav-badge') === null")
    page.click(".toolbar .check", "Show muted (1)")
    page.click("[data-check=docker-context] [aria-label='Unmute: docker-context']")
    page.until("document.querySelector('.nav-badge')?.innerText === '1'")
    if before is None:
        config.unlink()
    else:
        config.write_text(before)
    page.click(".toolbar button", "Run all")
    page.shows("No problems")
    assert context


def test_activity_lists_events(page: Tab) -> None:
    page.go("activity")
    page.shows("ConditionChanged")


def test_hostile_names_are_text(page: Tab, world: Desktop) -> None:
    nasty = "<img src=x onerror=alert(1)>\u202egnp\u0007" + "x" * 220
    world.docker(
        "create", "--name", "n" * 200, "--label", f"com.docker.compose.project={nasty}",
        "--label", f"<script>={nasty}", IMAGE, "sh", "-c", nasty,
    )  # fmt: skip
    page.go("containers")
    page.shows("<img src=x onerror=alert(1)>", "n" * 100)
    assert page.js("document.querySelectorAll('main img, main script').length") == 0
    width = page.js("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0
    page.click(".rows a.name")
    page.shows("<script>", "Summary")
    assert page.js("document.querySelectorAll('main img, main script').length") == 0
    world.remove_all()


AXE_RUN = (
    "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations"
    ".filter(v => ['serious', 'critical'].includes(v.impact))"
    ".map(v => `${v.id}: ${v.nodes[0].html.slice(0, 200)}`))"
)
SCREENS = [
    *("home", "containers", "images", "volumes", "networks", "ports", "machines", "kubernetes"),
    *("machines/default/rd", "settings", "diagnostics", "activity", "activity/history", "logs"),
]
TABS = ("info", "logs", "terminal", "stats", "processes", "inspect", "files")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screens_are_accessible(page: Tab, world: Desktop, scheme: str) -> None:
    id_ = world.run("seen", "-p", "127.0.0.1:18185:80", command="echo hello; exec sleep 100000")
    page.scheme(scheme)
    page.js(AXE.read_text() + "; undefined")
    found = {}

    def check(name: str) -> None:
        page.until("document.querySelector('main .spinner') === null")
        if bad := page.js(AXE_RUN):
            found[name] = bad

    for screen in (*SCREENS, *(f"containers/{id_}/{tab}" for tab in TABS)):
        page.go(*screen.split("/"))
        check(screen)
    page.go("containers")
    page.click(".rows [aria-label='Actions of seen']")
    check("menu")
    page.press("Escape")
    page.click(".rows [aria-label='Delete seen']")
    check("question")
    page.press("Escape")
    page.click(".toolbar .button.primary", "Create container")
    check("form")
    page.press("Escape")
    page.until("document.querySelector('dialog') === null")
    for name, key in (("palette", "k"), ("help", "?")):
        page.press(key, ctrl=name == "palette")
        page.until("document.querySelector('dialog') !== null")
        check(name)
        page.press("Escape")
        page.until("document.querySelector('dialog') === null")
    page.scheme("light")
    world.remove_all()
    assert found == {}


def test_narrow_window_has_a_menu_and_no_horizontal_scrolling(page: Tab, world: Desktop) -> None:
    id_ = world.run("slim", "-p", "127.0.0.1:18187:80")
    page.resize(400, 760)
    try:
        for screen in (*SCREENS, *(f"containers/{id_}/{tab}" for tab in TABS)):
            page.js(f"location.hash = '#/{screen}'")
            page.until("document.querySelector('main .spinner') === null")
            page.until("document.documentElement.scrollWidth <= 400")
        visible = "getComputedStyle(document.querySelector('nav.side')).visibility === 'visible'"
        assert not page.js(visible)
        page.click(".menu-button button")
        page.until(visible)
        page.click("nav.side a", "Containers")
        page.shows("slim")
    finally:
        page.resize(1280, 800)
        world.remove_all()
