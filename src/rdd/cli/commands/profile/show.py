# SPDX-License-Identifier: Apache-2.0
"""`rdd profile show`: the profile that applies, and whether the App agrees with its locks."""

import json
from typing import TYPE_CHECKING, Any

from rdd.api.types import Object
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.app.settings import text_of
from rdd.cli.commands.service.calls import service_for
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.profiles.rules import Rules

_HEADERS = ("SETTING", "LOCKED TO", "LINE", "APP")


def run(call: Call) -> int:
    from rdd.profiles.current import CurrentProfile
    from rdd.profiles.rules import BrokenProfile

    as_json = is_json(call)
    profile = CurrentProfile.of(call.instance)
    rules = profile.rules()
    app = _app(call) if rules is not None else None
    if as_json:
        call.out.write(json.dumps(_described(rules, app)) + "\n")
        return 0
    if rules is None:
        places = "".join(f"  {path}\n" for place in profile.places for path in place.paths())
        call.out.write(f"No deployment profile applies. Files searched, in this order:\n{places}")
        return 0
    scope = "system" if rules.is_system else "user"
    call.out.write(f"Profile: {rules.path} ({scope})\n")
    if isinstance(rules, BrokenProfile):
        call.out.write("Broken, so nothing may start:\n")
        call.out.write("".join(f"  {problem}\n" for problem in rules.problems))
        return 0
    described = _described(rules, app)
    for name, value in described["defaults"].items():
        call.out.write(f"Default: {name}={text_of(value)}\n")
    for name, text in described["limits"].items():
        call.out.write(f"{name}: {text_of(text)}\n")
    if described["locks"]:
        call.out.write("\n")
        write_table(call, [_HEADERS, *map(_row, described["locks"])])
    return 0


def _app(call: Call) -> Object | None:
    """Return the App of a running control plane; None if it cannot be read."""
    if service_for(call).running() is None:
        return None
    try:
        with connected(call, start=False) as connection:
            return get_or_none(connection, APP)
    except CommandError:
        return None


def _described(rules: "Rules | None", app: Object | None) -> dict[str, Any]:
    from rdd.profiles.rules import BrokenProfile, Profile
    from rdd.profiles.settings import leaves

    if rules is None:
        return {"file": None}
    described: dict[str, Any] = {
        "file": str(rules.path),
        "scope": "system" if rules.is_system else "user",
        "problems": list(rules.problems) if isinstance(rules, BrokenProfile) else [],
    }
    if not isinstance(rules, Profile):
        return described
    deviating = {d.field: d.reason for d in rules.app_deviations(app)} if app else {}
    described["defaults"] = {".".join(path): value for path, value in leaves(rules.defaults)}
    described["locks"] = [
        {
            "property": lock.name,
            "value": lock.value,
            "line": lock.line,
            "isMet": lock.name not in deviating if app else None,
        }
        for lock in rules.locks
    ]
    described["limits"] = _limits(rules)
    return described


def _limits(rules: "Rules") -> dict[str, Any]:
    from rdd.profiles.rules import Profile

    assert isinstance(rules, Profile)
    found: dict[str, Any] = {}
    if rules.only_app:
        found["limavm.machines"] = "app"
    if rules.templates is not None:
        found["limavm.templates"] = list(rules.templates)
    if rules.sources.patterns is not None:
        found["resource.urls"] = [pattern.text for pattern in rules.sources.patterns]
    if rules.sources.requires_digest:
        found["resource.requireDigest"] = True
    if rules.sources.digests:
        found["resource.digests"] = dict(rules.sources.digests)
    if rules.images is not None:
        found["image.allowed"] = [pattern.text for pattern in rules.images]
        found["image.local"] = [pattern.text for pattern in rules.local_images]
    if rules.ceiling is not None:
        found["rdd.rules"] = list(rules.ceiling)
    return found


def _row(lock: dict[str, Any]) -> tuple[str, ...]:
    met = {None: "-", True: "as locked", False: "differs"}[lock["isMet"]]
    return lock["property"], text_of(lock["value"]), str(lock["line"]), met
