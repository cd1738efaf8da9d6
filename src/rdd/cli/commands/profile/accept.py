# SPDX-License-Identifier: Apache-2.0
"""`rdd profile accept`: set all locked settings of the App to their locked values, at once."""

from typing import Any

from rdd.cli.commands.app.object import APP, patch
from rdd.cli.commands.app.set import show
from rdd.cli.commands.app.settings import text_of
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.cli.commands.app.settling import wait_if_asked
    from rdd.cli.framework.progress import shown
    from rdd.profiles import settings
    from rdd.profiles.current import CurrentProfile
    from rdd.profiles.rules import BrokenProfile

    rules = CurrentProfile.of(call.instance).rules()
    if rules is None or not rules.locks:
        if isinstance(rules, BrokenProfile):
            raise CommandError(f"the profile is broken: {rules.problems[0]}")
        call.out.write("No deployment profile locks a setting of this instance.\n")
        return 0
    with shown(call) as progress, connected(call, creates=False, progress=progress) as connection:
        app = get_or_none(connection, APP)
        if app is None:
            call.out.write("There is no App; a new one gets the locked values.\n")
            return 0
        deviating = {deviation.field for deviation in rules.app_deviations(app)}
        spec: dict[str, Any] = {}
        for lock in rules.locks:
            if lock.name in deviating:
                before = settings.value_at(app.get("spec"), lock.path)
                call.out.write(f"{lock.name}: {text_of(before)} -> {text_of(lock.value)}\n")
                settings.put(spec, lock.path, lock.value)
        if not spec:
            call.log.info("the App agrees with all locks")
            return 0
        if call.flags.truth("dry-run"):
            return 0
        version = app["metadata"]["resourceVersion"]
        app = patch(connection, spec, version=version)
        app = wait_if_asked(call, connection, app, progress)
    show(call, app)
    return 0
