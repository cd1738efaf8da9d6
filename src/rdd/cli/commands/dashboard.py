# SPDX-License-Identifier: Apache-2.0
"""`rdd dashboard`: open the dashboard in the browser.

The login link is not passed to the browser as an argument, which every user of the machine can
read: the browser opens a file that only this user can read, and which leads to the link.
"""

import contextlib
import html
from typing import Any

from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.existing import is_named, require_instance
from rdd.cli.framework.types import Call

_OPENERS = {
    "linux": (("xdg-open",), ("gio", "open"), ("sensible-browser",), ("wslview",)),
    "darwin": (("open",),),
    "windows": (("explorer",),),
}
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>rdd dashboard</title>
<p><a href="{url}">Open the dashboard</a></p>
"""


def run(call: Call) -> int:
    if is_named(call):
        require_instance(call)
    from rdd.cli.framework.autostart import ensure_running

    ensure_running(call)
    link = _request_link(call)
    member = "loopbackLoginUrl" if call.flags.truth("loopback") else "loginUrl"
    url = str(link[member])
    if call.flags.truth("print-url"):
        call.out.write(f"{url}\n")
        return 0
    if not _open(call, url):
        call.log.at_least("info").info(
            "no browser could be started; open this link within 60 s, it works once"
        )
        call.out.write(f"{url}\n")
    return 0


def _request_link(call: Call) -> dict[str, Any]:
    """Return the links of a new login. Raises CommandError."""
    import json

    from rdd.api import names
    from rdd.cli.commands.service.calls import translated
    from rdd.daemon.service.probe import NotReady, Probe

    role = "viewer" if call.flags.truth("viewer") else "admin"
    try:
        with translated(), Probe(call.instance) as probe:
            text = probe.text(f"{names.DASHBOARD_LOGIN_PATH}?role={role}", method="POST")
        found = json.loads(text)
    except NotReady as error:
        if error.status == 404:
            raise CommandError(
                "the running control plane has no dashboard; restart it: "
                "rdd service stop && rdd service start"
            ) from error
        raise CommandError(f"the dashboard cannot be opened: {error}") from error
    except ValueError as error:
        raise CommandError("the control plane sent no login link") from error
    return dict(found)


def _open(call: Call, url: str) -> bool:
    """Open the link through a file; return False if there is no browser."""
    from rdd.host.commands import find
    from rdd.host.errors import HostError
    from rdd.host.files import write_atomically
    from rdd.host.spawn import popen

    variables = call.environment.variables
    opener = variables.get("BROWSER", "").partition(":")[0].split()
    if not opener:
        candidates = _OPENERS.get(call.environment.system, ())
        opener = next((list(c) for c in candidates if find(c[0], variables)), [])
    has_screen = call.environment.system != "linux" or any(
        variables.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    )
    if not opener or not has_screen:
        return False
    path = call.instance.dashboard_page
    import subprocess

    try:
        write_atomically(path, _PAGE.format(url=html.escape(url)), durable=False)
        process = popen(
            [*opener, path.as_uri()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(variables),
            start_new_session=True,
        )
    except HostError as error:
        raise CommandError(str(error)) from error
    except OSError:
        return False
    # A browser may stay in the foreground; an opener that fails does so at once.
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=2.0) == 0
    return True
