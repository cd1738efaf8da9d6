# SPDX-License-Identifier: Apache-2.0
"""Params: their names and values, and that they and what uses them belong together.

A param that nothing refers to is an error, as in Lima: it is most often a misspelt one. The
other direction, a reference to what is not declared, would leave braces in a script.
"""

import re
from collections.abc import Iterator

from rdd.vm.template.errors import shown
from rdd.vm.template.model import Template
from rdd.vm.template.variables import params_read, params_used

_is_param = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*").fullmatch


def param_problems(template: Template) -> Iterator[str]:
    """What is wrong with the params of a template and their use."""
    scripts = dict(_scripts(template))
    used = {name for text in scripts.values() for name in params_used(text)}
    for name, value in template.param.items():
        if not _is_param(name):
            yield f"param: {shown(name)} must be letters, digits and _, beginning with a letter"
            continue
        if not value.isprintable():
            yield f"param.{name}: {shown(value)} must have printable characters only"
        if name not in used:
            yield (
                f"param.{name}: is not used: no provision, probe, copyToHost, mount or socket of "
                f"portForwards refers to {{{{.Param.{name}}}}} or PARAM_{name}"
            )
    for path, text in scripts.items():
        for name in sorted(set(params_read(text)) - template.param.keys()):
            yield f"{path}: refers to {{{{.Param.{name}}}}}, which param does not declare"


def _scripts(template: Template) -> Iterator[tuple[str, str]]:
    """Every text in which params count, with its path."""
    for number, step in enumerate(template.provision):
        path = f"provision[{number}]"
        yield f"{path}.script", step.script
        yield f"{path}.content", step.content or ""
        yield f"{path}.path", step.path
        yield f"{path}.owner", step.owner
        yield f"{path}.permissions", step.permissions
        yield f"{path}.expression", step.expression
        yield f"{path}.playbook", step.playbook
    for number, probe in enumerate(template.probes):
        yield f"probes[{number}].script", probe.script
        yield f"probes[{number}].description", probe.description
        yield f"probes[{number}].hint", probe.hint
    for number, item in enumerate(template.copy_to_host):
        yield f"copyToHost[{number}].guest", item.guest
        yield f"copyToHost[{number}].host", item.host
    for number, rule in enumerate(template.port_forwards):
        yield f"portForwards[{number}].guestSocket", rule.guest_socket
        yield f"portForwards[{number}].hostSocket", rule.host_socket
    for number, mount in enumerate(template.mounts):
        yield f"mounts[{number}].location", mount.location
        yield f"mounts[{number}].mountPoint", mount.mount_point
