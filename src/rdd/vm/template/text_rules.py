# SPDX-License-Identifier: Apache-2.0
"""Validation rules for texts that become lines of files in the guest.

`/etc/environment`, `/etc/hosts`, the list of mounts and the account of the user are read line by
line, and none of them has an escape for every character. A value with a line break would add lines
of its own, so a text that a file cannot hold is a problem of the template.
"""

import re
from collections.abc import Iterator, Mapping

from rdd.vm.template.errors import shown
from rdd.vm.template.model import Template

_has_control = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]").search
_is_bare = re.compile(r"[A-Za-z0-9_./:@,+=-]*").fullmatch
_has_shell_syntax = re.compile(r'["$`\\]').search
_is_host = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?").fullmatch
_is_target = re.compile(r"[A-Za-z0-9_.:%-]+").fullmatch
_is_zone = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*").fullmatch


def text_problems(template: Template) -> Iterator[str]:
    """Yield the texts that would not stay on their line of a file in the guest."""
    for name, value in template.env.items():
        if environment_text(value) is None:
            yield (
                f"env.{name}: {shown(value)} must be one line without control characters, and "
                'without a single quote next to any of " $ ` \\'
            )
    for name, target in template.host_resolver.hosts.items():
        if name and target and not (_is_host(name) and _is_target(target)):
            yield f"hostResolver.hosts: {shown(name)}: {shown(target)} must be host names"
    if template.timezone and not _is_zone(template.timezone):
        yield f'timezone: {shown(template.timezone)} must be a name such as "Europe/Berlin"'
    for key, value in _lines(template):
        if _has_control(value):
            yield f"{key}: {shown(value)} must be one line without control characters"
    for key, value in _account(template).items():
        if ":" in value:
            yield f'{key}: {shown(value)} must not contain ":"'


def environment_text(value: str) -> str | None:
    """Return a value as a line of /etc/environment has it, None if no quotes can hold it.

    PAM removes the quotes and supports no escapes; shells expand what is in double quotes.
    """
    if _has_control(value):
        return None
    if _is_bare(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    return None if _has_shell_syntax(value) else f'"{value}"'


def _account(template: Template) -> Mapping[str, str]:
    user = template.user
    return {"user.comment": user.comment, "user.home": user.home, "user.shell": user.shell}


def _lines(template: Template) -> Iterator[tuple[str, str]]:
    yield from _account(template).items()
    for number, mount in enumerate(template.mounts):
        yield f"mounts[{number}].location", mount.location
        yield f"mounts[{number}].mountPoint", mount.mount_point
    for number, item in enumerate(template.provision):
        yield f"provision[{number}].path", item.path
        yield f"provision[{number}].owner", item.owner
    for number, copy in enumerate(template.copy_to_host):
        yield f"copyToHost[{number}].guest", copy.guest
        yield f"copyToHost[{number}].host", copy.host
