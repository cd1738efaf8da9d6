# SPDX-License-Identifier: Apache-2.0
"""Lima's templates: reading, checking, completing and writing `lima.yaml`.

`parse` reads the form, `check` asks the rules, `validate` does both and tells everything at
once. `resolve` turns a template into what it means on this machine for one instance, and
`render` writes one. YAML is loaded by `parse` and `validate` only: a host agent reads what
`dump` wrote (`load`), which costs it neither the library nor the time.
"""

import json

from rdd.vm.template.defaults import HostFacts, apply_defaults, resolve
from rdd.vm.template.errors import TemplateError, TemplateSyntaxError
from rdd.vm.template.model import Template
from rdd.vm.template.serializer import render
from rdd.vm.template.shape import from_data, to_data
from rdd.vm.template.variables import Variables, expand, hostname

__all__ = [
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
    """Read a template.

    Raises TemplateSyntaxError when it is not YAML, TemplateError when a key is unknown or a
    value is not of its type.
    """
    from rdd.vm.template.parser import read

    template, problems = read(text)
    if problems:
        raise TemplateError(problems)
    return template


def check(template: Template, *, driver: str = "", has_image: bool = False) -> None:
    """Raise TemplateError with everything that is wrong, for any driver or for the one named."""
    from rdd.vm.template.rules import problems_of

    problems = problems_of(template, driver=driver, has_image=has_image)
    if problems:
        raise TemplateError(problems)


def validate(text: str, *, driver: str = "", has_image: bool = False) -> Template:
    """Read and check a template; what is wrong with form and content is told together.

    `has_image` says that the image comes from elsewhere (`RDD_GUEST_IMAGE`). Raises
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
    """A template as JSON, for `load`."""
    return json.dumps(to_data(template))


def load(text: str) -> Template:
    """The template that `dump` wrote. It is not checked again."""
    return from_data(Template, json.loads(text))
