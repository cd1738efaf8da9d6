# SPDX-License-Identifier: Apache-2.0
"""Validation rules for params: names, values, declarations and references.

An unreferenced param is an error, as in Lima: most often it is misspelt. An undeclared
reference is an error, too: it would leave braces in a script.
"""

import re
from collections.abc import Iterator

from rdd.vm.template.errors import shown
from rdd.vm.template.model import Template
from rdd.vm.template.variables import params_read, params_used

_is_param = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*").fullmatch


def param_problems(template: Template) -> Iterator[str]:
    """Yield the problems of the params of a template and their references."""
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
    """Yield every text that can refer to params, with its path."""
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
