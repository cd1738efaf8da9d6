# SPDX-License-Identifier: Apache-2.0
"""Plugins of the Docker CLI, where docker finds them.

The directory belongs to the user (`rdd.toolbox.plugins`): a link is created there only if the user
asks for it, and never in the place of another file. It is removed with the tool.
"""

import sys
from pathlib import Path

from rdd.cli.framework.confirm import agreed, is_interactive
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.toolbox.plugins import is_link_to, plugin_directory


def _directory(call: Call) -> Path:
    return plugin_directory(call.environment.variables, call.instance.home)


def offer_link(call: Call, program: Path) -> None:
    """Link a plugin if the user wants it: by --link-plugins, or by an answer on a terminal."""
    place = _directory(call) / program.name
    if is_link_to(place, program):
        return
    if place.exists() or place.is_symlink():
        call.log.warning(f'"{place}" is another {program.name}, which docker prefers; it stays')
        return
    if not call.flags.truth("link-plugins"):
        if not (is_interactive() and not call.flags.truth("yes")):
            call.log.warning(
                f"docker does not find {program.name} yet: add --link-plugins to link it into "
                f'"{place.parent}"'
            )
            return
        sys.stderr.write(f'Link {program.name} into "{place.parent}", for docker? [y/N] ')
        sys.stderr.flush()
        if not agreed():
            return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(program)
    except OSError as error:
        raise CommandError(f'cannot link "{place}": {error.strerror}') from error
    call.log.info(f'linked "{place}"')


def drop_link(call: Call, program: Path) -> None:
    """Remove the link to a plugin that is gone."""
    place = _directory(call) / program.name
    if is_link_to(place, program) and not program.exists():
        place.unlink(missing_ok=True)
