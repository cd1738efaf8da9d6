# SPDX-License-Identifier: Apache-2.0
"""APIService and CustomResourceDefinition."""

import pytest

from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds import apiextensions, apiregistration

services = apiregistration.APIServiceStrategy()
SPEC: Object = {
    "group": "example.com",
    "version": "v1",
    "groupPriorityMinimum": 100,
    "versionPriority": 10,
}


def texts(errors: list[FieldError]) -> list[str]:
    return [str(e) for e in errors]


def service(name: str = "v1.example.com", **change: object) -> Object:
    return {"metadata": {"name": name}, "spec": {**SPEC, **change}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(service(), [], id="local"),
        pytest.param(
            service("wrong"),
            [
                'metadata.name: Invalid value: "wrong": must be `spec.version+"."+spec.group`: '
                '"v1.example.com"'
            ],
            id="name",
        ),
        pytest.param(
            service("v2.", group="", version="v2"),
            [
                "spec.group: Required value: only v1 may have an empty group and it better be "
                "legacy kube"
            ],
            id="group",
        ),
        pytest.param(
            service(groupPriorityMinimum=0, versionPriority=1001),
            [
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ],
            id="priorities",
        ),
        pytest.param(
            service(caBundle="YWI=", insecureSkipTLSVerify=True),
            [
                'spec.caBundle: Invalid value: "2 bytes": local APIServices may not have a '
                "caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have "
                "insecureSkipTLSVerify",
            ],
            id="local-with-bundle",
        ),
        pytest.param(
            service(service={}, caBundle="YWI=", insecureSkipTLSVerify=True),
            [
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is "
                "present",
            ],
            id="service",
        ),
    ],
)
def test_api_services_are_consistent(given: Object, expected: list[str]) -> None:
    assert texts(services.validate(given).errors) == expected


def test_local_api_services_are_available_at_once() -> None:
    obj = service()
    services.prepare_for_create(obj)
    (condition,) = obj["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Available",
        "True",
        "Local",
    )
    assert services.own_cells(obj) == ["Local", "True"]


def test_conditions_of_other_services_show_the_reason() -> None:
    obj = service(service={"namespace": "n", "name": "s"})
    services.normalise(obj)
    assert obj["spec"]["service"]["port"] == 443
    services.prepare_for_create(obj)
    assert services.own_cells(obj) == ["n/s", "Unknown"]
    obj["status"] = {"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]}
    assert services.own_cells(obj) == ["n/s", "False (Gone)"]
    obj["status"]["conditions"][0]["status"] = "Maybe"
    assert texts(services.validate_update(obj, obj, subresource="status").errors) == [
        'status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", '
        '"False", "Unknown"'
    ]


def definition() -> Object:
    return {
        "metadata": {"name": "as.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "as", "kind": "A"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


def test_definitions_are_validated_by_the_schema_package() -> None:
    seen: list[str] = []

    def check_rules(schema: object, field: str, faulty: frozenset[int] | None) -> list[FieldError]:
        seen.append(field)
        return []

    strategy = apiextensions.CustomResourceDefinitionStrategy(check_rules)
    obj = definition()
    strategy.normalise(obj)
    strategy.prepare_for_create(obj)
    assert obj["spec"]["names"]["listKind"] == "AList"
    assert obj["status"]["storedVersions"] == ["v1"]
    assert strategy.validate(obj).errors == []
    assert seen == ["spec.validation.openAPIV3Schema"]
    changed = definition()
    changed["spec"]["group"] = "other.example.com"
    strategy.normalise(changed)
    strategy.prepare_for_update(changed, obj)
    assert "spec.group: Invalid value" in "\n".join(
        texts(strategy.validate_update(changed, obj).errors)
    )


def test_status_of_a_definition_is_written_separately() -> None:
    strategy = apiextensions.CustomResourceDefinitionStrategy()
    old = definition()
    strategy.normalise(old)
    strategy.prepare_for_create(old)
    new = {**definition(), "status": {"acceptedNames": {"plural": "as", "kind": "A"}}}
    new["metadata"] = {"name": "as.example.com", "labels": {"a": "b"}}
    strategy.prepare_for_update(new, old, subresource="status")
    assert new["spec"] == old["spec"]
    assert "labels" not in new["metadata"]
