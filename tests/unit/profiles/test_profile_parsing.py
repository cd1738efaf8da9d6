# SPDX-License-Identifier: Apache-2.0
"""Every mistake of a profile is reported with its line."""

import re
from pathlib import Path

import pytest
from tests.unit.profiles.profile_files import PATH, mistakes, profile

from rdd.profiles.schema import schema

ROOT = Path(__file__).parents[3]


def _bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for previous, name in zip("abcdefghij", "bcdefghijk", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{previous}'] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("- a\n", ["1: a profile is a mapping with the sections"], id="list"),
        pytest.param("text", ["1: a profile is a mapping"], id="text"),
        pytest.param("app: [\n", ["2: did not find expected node content"], id="syntax"),
        pytest.param("app: {}\n---\napp: {}\n", ["2: a profile is one YAML document"], id="two"),
        pytest.param('image: {}\nimage: {}\n', ['2: key "image" is given twice, first in line 1'],
                     id="twice"),
        pytest.param("? [a]\n: b\n", ["1: a key must be text"], id="key"),
        pytest.param("app: *x\n", ['1: anchor "x" is not defined'], id="anchor"),
        pytest.param(_bomb(), ["document contains excessive aliasing"], id="bomb"),
        pytest.param("a: " + "[" * 5000, ["1: nested deeper than 64 levels"], id="depth"),
        pytest.param(b"a: 1\nb: \xff\n", ["2: byte 8 is not UTF-8"], id="not UTF-8"),
        pytest.param("\ufeffapp: {}".encode("utf-16"), ["1: byte 0 is not UTF-8"], id="UTF-16"),
        pytest.param("a: \x00\n", ["the text is not YAML"], id="control character"),
        pytest.param(
            'app:\n  locked:\n    kubernetes:\n      enabled: "no"\n    kube: {}\n  x: 1\n'
            "metadata: {}\n",
            [
                '4: app.locked.kubernetes.enabled: Invalid value: "string"',
                "5: app.locked.kube: unknown field",
                "6: app.x: unknown field",
                "7: metadata: unknown field",
            ],
            id="all of them",
        ),
        pytest.param("app:\n  locked:\n    running: true\n",
                     ["3: app.locked.running: unknown field"], id="command"),
        pytest.param("app:\n", ['1: app: Invalid value: "null"'], id="null"),
        pytest.param(
            "apiVersion: rdd.rancherdesktop.io/v2\nkind: Profile\n",
            ["1: apiVersion: Unsupported value", "2: kind: Unsupported value"],
            id="version",
        ),
        pytest.param(
            "app:\n  defaults:\n    virtualMachine: {memory: 4Gi}\n  locked:\n"
            "    virtualMachine:\n      memory: 5Gi\n",
            ["3: app.defaults.virtualMachine.memory: contradicts "
             "app.locked.virtualMachine.memory in line 6"],
            id="contradiction",
        ),
        pytest.param("app: {locked: {kubernetes: {version: stable}}}",
                     ['1: app.locked.kubernetes.version: "stable" must be a version'],
                     id="channel"),
        pytest.param("app: {locked: {virtualMachine: {cpus: 0, memory: 1Gi}}}",
                     ["1: app.locked.virtualMachine.cpus: 0 must be at least 1",
                      '1: app.locked.virtualMachine.memory: "1Gi" must be a quantity'],
                     id="resources"),
        pytest.param("limavm:\n  machines: app\n  templates: []\n",
                     ['3: limavm.templates: contradicts limavm.machines "app"'], id="machines"),
        pytest.param("limavm: {templates: [md5:1]}", ["1: limavm.templates[0]: Invalid value"],
                     id="digest"),
        pytest.param(
            "resource:\n  urls:\n  - https://host\n  - ftp://h/p\n  - https://a*.com/p\n"
            "  - https://u@h/p\n  - file://h/p\n  - https://h:x/p\n  - https:///p\n",
            [f"{line}: resource.urls[{line - 3}]: " for line in range(3, 10)],
            id="urls",
        ),
        pytest.param(
            "resource:\n  digests:\n"
            + "".join(f"  - {{url: 'https://h/p', digest: 'sha256:{c * 64}'}}\n" for c in "ab"),
            ["4: resource.digests[1].digest: contradicts another digest"],
            id="digests",
        ),
        pytest.param("image:\n  allowed: [alpine, 'docker.io/a@*', '*']\n",
                     ["2: image.allowed[0]: ", "2: image.allowed[1]: ", "2: image.allowed[2]: "],
                     id="images"),
        pytest.param("image:\n  local: [localhost/a]\n",
                     ["2: image.local: has no effect without image.allowed"], id="local"),
        pytest.param(
            "rdd:\n  rules:\n  - {verbs: [get]}\n  - {verbs: [get], resources: [a]}\n"
            "  - {verbs: [get], nonResourceURLs: [/a], apiGroups: ['']}\n  - {resources: [a]}\n",
            ["6: rdd.rules[3].verbs: Required value"],
            id="rule without verbs",
        ),
        pytest.param(
            "rdd:\n  rules:\n  - {verbs: [get]}\n  - {verbs: [get], resources: [a]}\n"
            "  - {verbs: [get], nonResourceURLs: [/a], apiGroups: ['']}\n",
            ["3: rdd.rules[0]: ", "4: rdd.rules[1]: ", "5: rdd.rules[2]: "],
            id="rules",
        ),
        pytest.param('{\n\t"app": {\n\t\t"locked": {"kubernetes": {"enabled": 5}}\n\t}\n}',
                     ['3: app.locked.kubernetes.enabled: Invalid value: "integer"'],
                     id="JSON"),
        pytest.param("image: {allowed: 5}\nlimavm: {machines: app, templates: []}\n",
                     ['1: image.allowed: Invalid value: "integer"', "2: limavm.templates: "],
                     id="sections are independent"),
    ],
)  # fmt: skip
def test_mistake_is_reported_with_its_line(text: str | bytes, expected: list[str]) -> None:
    found = mistakes(text)
    assert len(found) == len(expected)
    for problem, start in zip(found, expected, strict=True):
        assert problem.startswith(start), (problem, start)


@pytest.mark.parametrize("text", ["", "---\n", "# nothing\n", "{}", "null\n"])
def test_empty_file_is_a_profile_without_limits(text: str) -> None:
    rules = profile(text)
    assert (rules.locks, rules.ceiling, rules.images) == ([], None, None)
    assert rules.path == PATH


def test_json_and_yaml_give_the_same_rules() -> None:
    yaml = profile("app:\n  locked:\n    proxy: {noProxy: [a, b]}\n")
    json = profile('{"app": {"locked":\n{"proxy": {"noProxy": ["a", "b"]}}}}')
    assert [(lock.path, lock.value) for lock in yaml.locks] == [
        (lock.path, lock.value) for lock in json.locks
    ]


def test_alias_within_limits_is_a_copy() -> None:
    rules = profile("image:\n  allowed: &a [docker.io/library/*]\n  local: *a\n")
    assert [pattern.text for pattern in rules.local_images] == ["docker.io/library/*"]


def test_page_describes_every_field() -> None:
    page = (ROOT / "docs" / "profiles.md").read_text()
    for section, node in schema()["properties"].items():
        for name in node.get("properties") or [""]:
            path = f"{section}.{name}".rstrip(".")
            assert f"`{path}`" in page, path


def test_sample_of_the_page_is_that_of_the_example() -> None:
    page = (ROOT / "docs" / "profiles.md").read_text()
    sample = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert sample is not None
    example = ROOT / "examples" / "06-profile" / "rancher-desktop-2.yaml"
    assert example.read_text().endswith(sample[1])
