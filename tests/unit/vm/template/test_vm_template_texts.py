# SPDX-License-Identifier: Apache-2.0
"""Texts of a template that would break out of their line in a file of the guest."""

import json

import pytest

from rdd.vm.template import TemplateError, validate
from rdd.vm.template.text_rules import environment_text

BREAKS = ["a\nb", "a\rb", "a\tb", "a\u0000b", "a\u001bb", "a\u0085b", "a\u2028b"]


def problems(text: str) -> list[str]:
    try:
        validate(text)
    except TemplateError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize("value", BREAKS)
@pytest.mark.parametrize(
    ("template", "path"),
    [
        pytest.param('{"env": {"A": VALUE}}', "env.A", id="env"),
        pytest.param('{"user": {"comment": VALUE}}', "user.comment", id="comment"),
        pytest.param('{"user": {"home": "/" VALUE}}', "user.home", id="home"),
        pytest.param('{"user": {"shell": "/" VALUE}}', "user.shell", id="shell"),
        pytest.param('{"mounts": [{"location": "/" VALUE}]}', "mounts[0].location", id="mount"),
        pytest.param(
            '{"mounts": [{"location": "/a", "mountPoint": "/" VALUE}]}',
            "mounts[0].mountPoint",
            id="mount point",
        ),
        pytest.param(
            '{"provision": [{"mode": "data", "path": "/" VALUE, "content": ""}]}',
            "provision[0].path",
            id="data",
        ),
        pytest.param(
            '{"provision": [{"mode": "data", "path": "/a", "owner": VALUE, "content": ""}]}',
            "provision[0].owner",
            id="owner",
        ),
        pytest.param(
            '{"copyToHost": [{"guest": "/" VALUE, "host": "/x"}]}', "copyToHost[0].guest", id="copy"
        ),
        pytest.param('{"timezone": VALUE}', "timezone", id="timezone"),
        pytest.param(
            '{"hostResolver": {"hosts": {VALUE: "1.2.3.4"}}}', "hostResolver.hosts", id="host"
        ),
        pytest.param(
            '{"hostResolver": {"hosts": {"a": VALUE}}}', "hostResolver.hosts", id="target"
        ),
    ],
)
def test_line_breaks_are_rejected(template: str, path: str, value: str) -> None:
    text = template.replace('"/" VALUE', json.dumps("/" + value)).replace(
        "VALUE", json.dumps(value)
    )
    found = problems(text)
    assert any(path in problem for problem in found), found
    assert all("\n" not in problem for problem in found)


@pytest.mark.parametrize(
    "text",
    [
        "hostResolver: {hosts: {'a b': 1.2.3.4}}",
        "hostResolver: {hosts: {a: '1.2.3.4 evil'}}",
        "hostResolver: {hosts: {'#a': 1.2.3.4}}",
        "timezone: ../../etc/passwd",
        "timezone: 'a b'",
        "user: {comment: 'a:b'}",
        "user: {home: '/a:b'}",
        'env: {A: "it\'s $HOME"}',
    ],
)
def test_text_that_its_file_cannot_hold_is_rejected(text: str) -> None:
    assert len(problems(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "hostResolver: {hosts: {host.docker.internal: host.lima.internal, a_b: '::1'}}",
        "timezone: America/Argentina/Buenos_Aires",
        "timezone: Etc/GMT+1",
        "user: {comment: 'Anna Ä. Example, Esq.'}",
        "mounts: [{location: '~/My Files'}]",
        "env: {A: '', B: 'a \"b\" $c', C: \"it's\"}",
    ],
)
def test_usual_texts_are_accepted(text: str) -> None:
    assert problems(text) == []


def test_environment_texts() -> None:
    assert environment_text("/usr/bin:/bin") == "/usr/bin:/bin"
    assert environment_text('$(id) "`\\') == "'$(id) \"`\\'"
    assert environment_text("it's") == '"it\'s"'
    assert environment_text("it's $x") is None
    assert environment_text("a\nb") is None
