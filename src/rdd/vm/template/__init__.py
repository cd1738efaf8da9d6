# SPDX-License-Identifier: Apache-2.0
"""Lima's templates: parsing, validation, defaulting and serialisation of `lima.yaml`.

`parse` checks syntax and types, `check` applies the rules, `validate` does both and reports
all errors together. `resolve` completes a template for one instance on this host, and `render`
serialises one. Only `parse` and `validate` import YAML: a host agent reads the output of
`dump` with `load`, without the library and its import time.
"""

import json

from rdd.vm.template.defaults import DEFAULT_DISK, HostFacts, apply_defaults, resolve
from rdd.vm.template.errors import TemplateError, TemplateSyntaxError
from rdd.vm.template.model import Template
from rdd.vm.template.serializer import render
from rdd.vm.template.shape import from_data, to_data
from rdd.vm.template.variables import Variables, expand, hostname

__all__ = [
    "DEFAULT_DISK",
    "HostFacts",
    "Template",
    "TemplateError",
    "TemplateSyntaxError",
    "Variables",
    "apply_defaults",
    "check",
    "dump",
    "expand",
    "hostname",
    "load",
    "parse",
    "render",
    "resolve",
    "validate",
]


def parse(text: str) -> Template:
    """Parse a template.

    Raises TemplateSyntaxError when it is not YAML, TemplateError when a key is unknown or a
    value has the wrong type.
    """
    from rdd.vm.template.parser import read

    template, problems = read(text)
    if problems:
        raise TemplateError(problems)
    return template


def check(template: Template, *, driver: str = "", has_image: bool = False) -> None:
    """Raise TemplateError with all violations, for any driver or for the given one."""
    from rdd.vm.template.rules import problems_of

    problems = problems_of(template, driver=driver, has_image=has_image)
    if problems:
        raise TemplateError(problems)


def validate(text: str, *, driver: str = "", has_image: bool = False) -> Template:
    """Parse and check a template; report all errors together.

    `has_image`: the image does not come from the template (`RDD_GUEST_IMAGE`). Raises
    TemplateSyntaxError when the text is not YAML, otherwise TemplateError.
    """
    from rdd.vm.template.parser import read
    from rdd.vm.template.rules import problems_of

    template, problems = read(text)
    problems += problems_of(template, driver=driver, has_image=has_image)
    if problems:
        raise TemplateError(problems)
    return template


def dump(template: Template) -> str:
    """Return a template as JSON, for `load`."""
    return json.dumps(to_data(template))


def load(text: str) -> Template:
    """Return the template in the output of `dump`, without validation."""
    return from_data(Template, json.loads(text))
