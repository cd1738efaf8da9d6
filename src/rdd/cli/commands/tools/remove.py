# SPDX-License-Identifier: Apache-2.0
"""`rdd tools remove`: remove versions of tools."""

from rdd.base.sizes import binary
from rdd.cli.commands.tools.plugins import drop_link
from rdd.cli.commands.tools.selection import installed, toolbox_of
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.host.errors import HostError


def run(call: Call) -> int:
    found = installed(call, call.args)
    for one in found:
        if one.tool == "engine" and str(one.directory) == used_engine(call):
            raise CommandError(
                f"the App uses engine {one.version}; to change that: "
                "rdd set containerEngine.version=; nothing was removed"
            )
    lines = [f"  {one.tool} {one.version} ({binary(one.size_bytes)})" for one in found]
    confirm(call, ["This removes:", *lines])
    toolbox = toolbox_of(call)
    for one in found:
        try:
            toolbox.remove(one.tool, one.version)
        except HostError as error:
            raise CommandError(str(error)) from error
        for program in one.programs:
            drop_link(call, toolbox.bin_dir / program)
        call.log.info(f"removed {one.tool} {one.version}")
    return 0


def used_engine(call: Call) -> str:
    """Return the directory of the engine in the App's machine; empty without one of the toolbox.

    The template on disk is what the machine runs with, whether the control plane runs or not.
    """
    from rdd.api import names
    from rdd.vm.instance_dir import LimaHome

    directory = LimaHome(call.instance.lima_home).directory(names.APP_VM_NAME)
    try:
        return directory.template().param.get("CONTAINER_ENGINE_DIR", "")
    except HostError:
        return ""
