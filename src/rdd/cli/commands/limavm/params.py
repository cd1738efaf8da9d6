# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm params`: override the params of a template for one virtual machine."""

import json
from typing import TYPE_CHECKING

from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection


def run(call: Call) -> int:
    """Print the params, or change some and wait until the machine uses them."""
    name, *changes = call.args
    wanted = _parsed(changes)
    as_json = is_json(call)
    with limavm.connection_for(call) as connection:
        vm = limavm.find(connection, name)
        if wanted:
            with shown(call) as progress:
                written = limavm.patch(connection, vm, {"spec": {"params": wanted}})
                call.log.info(f"params of LimaVM {quote(name)} changed")
                if call.flags.truth("wait"):
                    limavm.wait(
                        call,
                        connection,
                        written,
                        lambda vm: limavm.covers(vm, written) and _is_in_effect(vm),
                        until="using the params",
                        progress=progress,
                    )
            return 0
        _show(call, connection, vm, as_json=as_json)
    return 0


def _parsed(words: list[str]) -> dict[str, str | None]:
    """Parse PARAM=VALUE and PARAM- arguments; None removes an override."""
    wanted: dict[str, str | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name:
            wanted[name] = value
        elif not equals and word.endswith("-") and len(word) > 1:
            wanted[word[:-1]] = None
        else:
            raise CommandError(
                f"invalid argument {quote(word)}: expected PARAM=VALUE, or PARAM- to remove it"
            )
    return wanted


def _is_in_effect(vm: Object) -> bool:
    return limavm.is_running(vm) if vm["spec"].get("running") else limavm.is_stopped(vm)


def _show(call: Call, connection: "Connection", vm: Object, *, as_json: bool) -> None:
    declared = _declared(connection, vm)
    own = vm["spec"].get("params") or {}
    if as_json:
        records = [
            {"name": name, "value": own.get(name, value), "isOwn": name in own}
            for name, value in sorted(declared.items())
        ]
        call.out.write(json.dumps(records) + "\n")
        return
    for name, value in sorted(declared.items()):
        mark = "  (template: " + quote(value) + ")" if name in own else ""
        call.out.write(f"{name}={own.get(name, value)}{mark}\n")


def _declared(connection: "Connection", vm: Object) -> dict[str, str]:
    """Return the params of the template with their defaults."""
    from rdd.vm.template import TemplateError, parse

    copy = (vm.get("status") or {}).get("templateConfigMap")
    if not copy:
        raise CommandError(f"LimaVM {quote(vm['metadata']['name'])} has no template yet")
    path = f"/api/v1/namespaces/{vm['metadata']['namespace']}/configmaps/{copy}"
    try:
        return dict(parse(connection.get(path)["data"]["template"]).param)
    except TemplateError as error:
        raise CommandError(f"the template in ConfigMap {quote(copy)} is invalid: {error}") from None
