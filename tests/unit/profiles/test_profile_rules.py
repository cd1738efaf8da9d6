# SPDX-License-Identifier: Apache-2.0
"""What a profile allows."""

import hashlib

import pytest
from tests.unit.profiles.profile_files import PATH, profile

from rdd.api import names
from rdd.api.types import Object


def fields(rules: str, spec: Object, **members: Object) -> list[str]:
    app = {"spec": spec, **members}
    return [deviation.field for deviation in profile(rules).app_deviations(app)]


@pytest.mark.parametrize(
    ("locked", "spec", "deviates"),
    [
        ("kubernetes: {enabled: false}", {}, False),
        ("kubernetes: {enabled: false}", {"kubernetes": {"enabled": True}}, True),
        ("kubernetes: {enabled: true}", {}, True),
        ("virtualMachine: {memory: 4Gi}", {"virtualMachine": {"memory": "4096Mi"}}, False),
        ("virtualMachine: {memory: 4Gi}", {"virtualMachine": {"memory": "4G"}}, True),
        ("virtualMachine: {type: auto}", {}, False),
        ("virtualMachine: {type: host}", {"virtualMachine": {"type": "auto"}}, True),
        ("proxy: {httpProxy: ''}", {"proxy": None}, False),
        ("proxy: {httpProxy: ''}", {"proxy": {"httpProxy": "http://p:1"}}, True),
        ("registries: {insecure: []}", {"registries": {}}, False),
        ("registries: {insecure: []}", {"registries": {"insecure": ["a"]}}, True),
        ("registries: {insecure: [a, b]}", {"registries": {"insecure": ["a"]}}, True),
        ("registries: {mirrors: [{registry: a, endpoints: ['http://b']}]}",
         {"registries": {"mirrors": [{"registry": "a", "endpoints": ["http://b"]}]}}, False),
        ("registries: {mirrors: [{registry: a, endpoints: ['http://b']}]}",
         {"registries": {"mirrors": [{"registry": "a", "endpoints": ["http://c"]}]}}, True),
    ],
)  # fmt: skip
def test_lock_compares_what_a_setting_means(locked: str, spec: Object, deviates: bool) -> None:
    assert bool(fields(f"app: {{locked: {{{locked}}}}}", spec)) == deviates


def test_refusal_names_field_file_and_line_and_no_password() -> None:
    rules = profile("app:\n  locked:\n    proxy:\n      httpProxy: http://u:secret@p:1\n")
    problem = rules.app_problem({"spec": {"proxy": {"httpProxy": "http://me:hidden@q:2"}}})
    assert problem == (
        f'spec.proxy.httpProxy is locked to "http://…@p:1" by {PATH}:4; it is "http://…@q:2"; '
        "`rdd profile accept` takes over all locked values"
    )


def test_locked_resources_must_not_be_marked_as_defaults() -> None:
    marked = {"annotations": {names.CPUS_DEFAULTED: "true"}}
    rules, spec = "app: {locked: {virtualMachine: {cpus: 2}}}", {"virtualMachine": {"cpus": 2}}
    assert fields(rules, spec) == []
    assert fields(rules, spec, metadata=marked) == ["virtualMachine.cpus"]


def test_existing_machine_of_another_type_deviates() -> None:
    rules = "app: {locked: {virtualMachine: {type: qemu}}}"
    spec = {"virtualMachine": {"type": "qemu"}}
    assert fields(rules, spec, status={"virtualMachineType": "qemu"}) == []
    found = fields(rules, spec, status={"virtualMachineType": "host"})
    assert found == ["status.virtualMachine.type"]


IMAGES = """
image:
  allowed: [docker.io/library/*, "registry.example.com:5000/team/*:1.*", "quay.io/a@sha256:%s"]
  local: [localhost/mine]
""" % ("a" * 64)


@pytest.mark.parametrize(
    ("image", "is_allowed"),
    [
        ("alpine", True),
        ("alpine:3", True),
        ("docker.io/alpine", True),
        ("index.docker.io/library/alpine@sha256:" + "b" * 64, True),
        ("docker.io/someone/alpine", False),
        ("docker.io.evil.com/library/alpine", False),
        ("registry.example.com:5000/team/a/b:1.2", True),
        ("registry.example.com:5000/team/a:2", False),
        ("registry.example.com:5000/team/a:1.2@sha256:" + "b" * 64, False),
        ("registry.example.com/team/a:1.2", False),
        ("quay.io/a@sha256:" + "a" * 64, True),
        ("quay.io/a:latest", False),
        ("sha256:" + "a" * 64, False),
        ("a" * 64, False),
        ("cafe", False),
        ("cafe:latest", True),
        ("localhost/mine", False),
        ("", False),
    ],
)
def test_image_is_compared_by_its_full_name(image: str, is_allowed: bool) -> None:
    rules = profile(IMAGES)
    assert (not rules.pull_problem(image)) == is_allowed
    if image != "localhost/mine":
        assert (not rules.run_problem(image)) == is_allowed
    if not is_allowed and image:
        assert f"{PATH}:3" in rules.pull_problem(image)


def test_local_names_are_their_own() -> None:
    rules = profile(IMAGES)
    assert not rules.run_problem("localhost/mine:2")
    assert not rules.local_name_problem("localhost/mine:2")
    assert "image.local" in rules.local_name_problem("alpine")
    assert not profile("").local_name_problem("alpine")


TEMPLATE = "images: [{location: 'https://a.example.com/disk', digest: 'sha256:%s'}]\n" % ("a" * 64)


def test_machines_besides_that_of_the_app() -> None:
    digest = "sha256:" + hashlib.sha256(TEMPLATE.encode()).hexdigest()
    only_app = profile("limavm: {machines: app}")
    assert not only_app.machine_problem(is_apps=True, template=TEMPLATE)
    assert "limavm.machines" in only_app.machine_problem(is_apps=False, template=TEMPLATE)
    listed = profile(f"limavm: {{templates: ['{digest}']}}")
    assert not listed.machine_problem(is_apps=False, template=TEMPLATE)
    assert "lacks" in listed.machine_problem(is_apps=False, template=TEMPLATE + " ")


@pytest.mark.parametrize("is_apps", [True, False])
def test_files_of_a_template_must_be_allowed(is_apps: bool) -> None:
    for allowed, problem in (("https://a.example.com/*", ""), ("https://b.example.com/*", "disk")):
        rules = profile(f"resource: {{urls: ['{allowed}'], requireDigest: true}}")
        assert problem in rules.machine_problem(is_apps=is_apps, template=TEMPLATE)
        assert bool(problem) == bool(rules.machine_problem(is_apps=is_apps, template=TEMPLATE))
    rules = profile("resource: {requireDigest: true}")
    without = "images: [{location: /disk}]"
    assert "requireDigest" in rules.machine_problem(is_apps=is_apps, template=without)
