# SPDX-License-Identifier: Apache-2.0
"""Custom resource definitions: defaults, names, versions, conversion, columns, updates."""

import copy
from typing import Any

import pytest

from rdd.api.fielderrors import FieldError
from rdd.schema.crd import validation as crds
from rdd.schema.crd import versions as crd_versions
from rdd.schema.crd.columns import scale_errors, selectable_value

PLAIN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DNS1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
MIXED = f"may have mixed case, but should otherwise match: {DNS1035}"


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": copy.deepcopy(PLAIN)},
        **more,
    }


def definition(**spec: Any) -> dict[str, Any]:
    crd: dict[str, Any] = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version()],
            **spec,
        },
    }
    crds.normalise(crd)
    crds.prepare_for_create(crd)
    return crd


def created(**spec: Any) -> list[str]:
    return [str(e) for e in crds.crd_errors(definition(**spec))]


def established(crd: dict[str, Any]) -> dict[str, Any]:
    crd["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return crd


def test_a_minimal_definition_is_defaulted_and_accepted() -> None:
    crd = definition()
    assert crd["spec"]["names"] == {
        "plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList",
    }  # fmt: skip
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    assert crds.crd_errors(crd) == []


def test_the_port_of_a_webhook_service_is_defaulted() -> None:
    service = {"name": "s", "namespace": "n"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    crd = definition(conversion={"strategy": "Webhook", "webhook": webhook})
    assert service["port"] == 443  # type: ignore[comparison-overlap]
    assert crds.crd_errors(crd) == []


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param({"group": ""}, [
            'metadata.name: Invalid value: "widgets.example.com": '
            'must be spec.names.plural+"."+spec.group',
            "spec.group: Required value",
        ], id="no group"),
        pytest.param({"group": "short"}, [
            'metadata.name: Invalid value: "widgets.example.com": '
            'must be spec.names.plural+"."+spec.group',
            'spec.group: Invalid value: "short": should be a domain with at least one dot',
        ], id="group without a dot"),
        pytest.param({"scope": ""}, ["spec.scope: Required value"], id="no scope"),
        pytest.param({"scope": "Galaxy"}, [
            'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ], id="bad scope"),
        pytest.param({"names": {"plural": "widgets", "kind": ""}}, [
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
        ], id="no kind"),
        pytest.param({"names": {"plural": "widgets", "kind": "x y"}}, [
            f'spec.names.singular: Invalid value: "x y": {DNS1035}',
            f'spec.names.kind: Invalid value: "x y": {MIXED}',
            f'spec.names.listKind: Invalid value: "x yList": {MIXED}',
        ], id="bad kind"),
        pytest.param({"names": {"plural": "widgets", "kind": "W", "listKind": "W",
                                "shortNames": ["B"], "categories": ["C"]}}, [
            f'spec.names.shortNames[0]: Invalid value: "B": {DNS1035}',
            'spec.names.listKind: Invalid value: "W": kind and listKind may not be the same',
            f'spec.names.categories[0]: Invalid value: "C": {DNS1035}',
        ], id="short names, list kind and categories"),
        pytest.param({"versions": [version("V1")]}, [
            f'spec.versions[0].name: Invalid value: "V1": {DNS1035}',
            f'spec.version: Invalid value: "V1": {DNS1035}',
        ], id="bad version name"),
        pytest.param({"versions": [version(storage=False)]}, [
            'spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,'
            '"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,'
            '"AdditionalPrinterColumns":null,"SelectableFields":null}]: '
            "must have exactly one version marked as storage version",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ], id="no storage version"),
        pytest.param({"versions": [version(), version()]}, [*(
            'spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":true,'
            '"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,'
            '"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"v1","Served":true,'
            '"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,'
            '"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: '
            + text
            for text in ("must contain unique version names",
                         "must have exactly one version marked as storage version")),
            'status.storedVersions: Invalid value: ["v1"]: must have the storage version v1',
        ], id="a version twice"),
        pytest.param({"versions": [version(schema=None)]}, [
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ], id="no schema"),
        pytest.param({"versions": [version(), version("v2", storage=False, schema=None)]}, [
            "spec.versions[1].schema.openAPIV3Schema: Required value",
        ], id="a version without a schema"),
        pytest.param({"versions": [version(deprecationWarning="w")]}, [
            'spec.versions[0].deprecationWarning: Invalid value: "w": '
            "can only be set for deprecated versions",
        ], id="warning of a version that is not deprecated"),
        pytest.param({"versions": [version(deprecated=True, deprecationWarning="a\nb")]}, [
            'spec.versions[0].deprecationWarning: Invalid value: "a\\nb": must only contain '
            "printable UTF-8 characters; non-printable character found at index 1",
        ], id="unprintable warning"),
        pytest.param({"versions": [version(deprecated=True, deprecationWarning="")]}, [
            'spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string',
        ], id="empty warning"),
        pytest.param({"preserveUnknownFields": True}, [
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ], id="preserveUnknownFields"),
    ],
)  # fmt: skip
def test_names_and_versions_are_checked(spec: dict[str, Any], messages: list[str]) -> None:
    assert created(**spec) == messages


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("https://github.com/kubernetes/kubernetes/pull/1", ""),
        ("unapproved, experimental-only", ""),
        (
            "",
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups "
            'must have approval annotation "api-approved.kubernetes.io", '
            "see https://github.com/kubernetes/enhancements/pull/1111",
        ),
        (
            "yes",
            'metadata.annotations[api-approved.kubernetes.io]: Invalid value: "yes": protected '
            'groups must have approval annotation "api-approved.kubernetes.io" with either a URL '
            'or a reason starting with "unapproved", '
            "see https://github.com/kubernetes/enhancements/pull/1111",
        ),
    ],
)
def test_groups_of_kubernetes_need_an_approval(annotation: str, message: str) -> None:
    crd = definition(group="my.k8s.io")
    crd["metadata"] = {
        "name": "widgets.my.k8s.io",
        "annotations": {"api-approved.kubernetes.io": annotation},
    }
    assert [str(e) for e in crds.crd_errors(crd)] == ([message] if message else [])
    assert crds.crd_update_errors(crd, copy.deepcopy(crd)) == []


COLUMN = "spec.additionalPrinterColumns[0]"


@pytest.mark.parametrize(
    ("column", "messages"),
    [
        ({"name": "A", "type": "string", "jsonPath": ".x[", "format": "byte"}, []),
        (
            {"name": "", "type": "", "jsonPath": ""},
            [
                f"{COLUMN}.name: Required value",
                f"{COLUMN}.type: Required value: must be one of boolean,date,integer,number,string",
                f"{COLUMN}.JSONPath: Required value",
            ],
        ),
        (
            {"name": "A", "type": "odd", "format": "zz", "jsonPath": "x"},
            [
                f'{COLUMN}.type: Invalid value: "odd": '
                "must be one of boolean,date,integer,number,string",
                f'{COLUMN}.format: Invalid value: "zz": must be one of '
                "byte,date,date-time,double,float,int32,int64,password",
                f'{COLUMN}.JSONPath: Invalid value: "x": '
                "must be a simple json path starting with .",
            ],
        ),
    ],
)
def test_columns_are_checked(column: dict[str, Any], messages: list[str]) -> None:
    assert created(versions=[version(additionalPrinterColumns=[column])]) == messages


SCALE = "spec.subresources.scale"


@pytest.mark.parametrize(
    ("scale", "messages"),
    [
        ({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}, []),
        (
            {},
            [
                f"{SCALE}.specReplicasPath: Required value",
                f"{SCALE}.statusReplicasPath: Required value",
            ],
        ),
        (
            {
                "specReplicasPath": "spec.n",
                "statusReplicasPath": ".spec.n",
                "labelSelectorPath": ".x",
            },
            [
                f'{SCALE}.specReplicasPath: Invalid value: "spec.n": '
                "must be a simple json path starting with .",
                f'{SCALE}.statusReplicasPath: Invalid value: ".spec.n": '
                "should be a json path under .status",
                f'{SCALE}.labelSelectorPath: Invalid value: ".x": '
                "should be a json path under either .spec or .status",
            ],
        ),
    ],
)
def test_scale_paths_are_checked(scale: dict[str, Any], messages: list[str]) -> None:
    assert created(versions=[version(subresources={"scale": scale})]) == messages


@pytest.mark.parametrize(
    ("obj", "messages"),
    [
        ({"spec": {"n": 1}}, []),
        ({}, []),
        (
            {"spec": {"n": -1}, "status": {"n": 2**31}},
            [
                ".spec.n: Invalid value: -1: should be a non-negative integer",
                ".status.n: Invalid value: 2147483648: should be less than or equal to 2147483647",
            ],
        ),
        (
            {"spec": {"n": "x"}, "status": {"s": 1}},
            [
                ".spec.n: Invalid value: 0: "
                ".spec.n accessor error: x is of the type string, expected int64",
                '.status.s: Invalid value: "": '
                ".status.s accessor error: 1 is of the type int64, expected string",
            ],
        ),
    ],
)
def test_replicas_of_objects_are_checked(obj: dict[str, Any], messages: list[str]) -> None:
    scale = {
        "specReplicasPath": ".spec.n",
        "statusReplicasPath": ".status.n",
        "labelSelectorPath": ".status.s",
    }
    assert [str(e) for e in scale_errors(scale, obj)] == messages


SELECTABLE = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {
            "type": "object",
            "properties": {
                **{f"f{i}": {"type": "string"} for i in range(9)},
                "o": {"type": "object"},
            },
        },
    },
}


@pytest.mark.parametrize(
    ("paths", "messages"),
    [
        ([".spec.f0", ".spec.f1"], []),
        (
            [""],
            ["spec.selectableFields[0].jsonPath: Required value"],
        ),
        (
            [".spec.zz", ".spec.o", ".spec.f0", ".spec.f0", ".spec['f0']"],
            [
                'spec.selectableFields[0].jsonPath: Invalid value: ".spec.zz": '
                "is an invalid path: does not refer to a valid field",
                'spec.selectableFields[1].jsonPath: Invalid value: ".spec.o": must point to a '
                "field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed.",
                'spec.selectableFields[3].jsonPath: Duplicate value: ".spec.f0"',
                "spec.selectableFields[4].jsonPath: Invalid value: \".spec['f0']\": "
                "is an invalid path: array notation is not allowed",
            ],
        ),
        (
            [".metadata.name"],
            [
                'spec.selectableFields[0].jsonPath: Invalid value: ".metadata.name": '
                "must not point to fields in metadata"
            ],
        ),
        (
            [f".spec.f{i}" for i in range(9)],
            ["spec.selectableFields: Too many: 9: must have at most 8 items"],
        ),
    ],
)
def test_selectable_fields_are_checked(paths: list[str], messages: list[str]) -> None:
    fields = [{"jsonPath": path} for path in paths]
    one = version(schema={"openAPIV3Schema": SELECTABLE}, selectableFields=fields)
    assert created(versions=[one]) == messages


def test_values_of_selectable_fields_are_texts() -> None:
    given: list[Any] = ["x", 2, True, False, None, {}]
    values = [selectable_value(v) for v in given]
    assert values == ["x", "2", "true", "false", "", ""]


CLIENT = "spec.conversion.webhookClientConfig"
UNWANTED = "Forbidden: should not be set when strategy is not set to Webhook"


def webhook(url: str = "https://x.example.com/", **more: Any) -> dict[str, Any]:
    config = {"clientConfig": {"url": url}, "conversionReviewVersions": ["v1"], **more}
    return {"strategy": "Webhook", "webhook": config}


@pytest.mark.parametrize(
    ("conversion", "messages"),
    [
        pytest.param(webhook(), [], id="a good webhook"),
        pytest.param({"strategy": ""}, ["spec.conversion.strategy: Required value"], id="none"),
        pytest.param({"strategy": "Odd"}, [
            'spec.conversion.strategy: Unsupported value: "Odd": supported values: "None", '
            '"Webhook"'], id="unknown strategy"),
        pytest.param({"strategy": "Webhook"}, [
            f"{CLIENT}: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Required value"], id="no webhook"),
        pytest.param({**webhook(), "strategy": "None"}, [
            f"{CLIENT}: {UNWANTED}", f"spec.conversion.conversionReviewVersions: {UNWANTED}",
        ], id="webhook without need"),
        pytest.param(webhook("http://u:p@x/?q#f"), [
            f"{CLIENT}.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
            "desired format: https://host[/path]",
            f'{CLIENT}.url: Invalid value: "u:p": user information is not permitted in the URL',
            f'{CLIENT}.url: Invalid value: "f": fragments are not permitted in the URL',
            f'{CLIENT}.url: Invalid value: "q": query parameters are not permitted in the URL',
        ], id="bad URL"),
        pytest.param(webhook("https:///path"), [
            f'{CLIENT}.url: Invalid value: "": host must be specified; '
            "desired format: https://host[/path]"], id="no host"),
        pytest.param(webhook(clientConfig={}), [
            f"{CLIENT}: Required value: exactly one of url or service is required"], id="neither"),
        pytest.param(
            webhook(clientConfig={"service": {"name": "s", "namespace": "n", "port": 0,
                                              "path": "a//B"}}), [
            f"{CLIENT}.service.port: Invalid value: 0: port is not valid: "
            "must be between 1 and 65535, inclusive",
            f"{CLIENT}.service.path: Invalid value: \"a//B\": must start with a '/'",
            f'{CLIENT}.service.path: Invalid value: "a//B": segment[0] may not be empty',
            f'{CLIENT}.service.path: Invalid value: "a//B": segment[1] may not be empty',
            f'{CLIENT}.service.path: Invalid value: "a//B": segment[2]: a lowercase RFC 1123 '
            "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ], id="bad service"),
        pytest.param(webhook(conversionReviewVersions=["v0", "v0"]), [
            'spec.conversion.conversionReviewVersions[1]: Invalid value: "v0": duplicate version',
            'spec.conversion.conversionReviewVersions: Invalid value: ["v0","v0"]: '
            "must include at least one of v1, v1beta1"], id="review versions"),
    ],
)  # fmt: skip
def test_conversion_is_checked(conversion: dict[str, Any], messages: list[str]) -> None:
    assert created(conversion=conversion) == messages


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]}}, []),
        ({"group": "other.com"}, ['spec.group: Invalid value: "other.com": field is immutable']),
        ({"scope": "Cluster"}, ['spec.scope: Invalid value: "Cluster": field is immutable']),
        (
            {"names": {"plural": "gadgets", "kind": "Gadget"}},
            [
                'spec.names.kind: Invalid value: "Gadget": field is immutable',
                'spec.names.plural: Invalid value: "gadgets": field is immutable',
            ],
        ),
        (
            {"versions": [version("v2")]},
            [
                'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 '
                "was previously a storage version, and must remain in spec.versions until a "
                "storage migration ensures no data remains persisted in v1 and removes v1 from "
                "status.storedVersions"
            ],
        ),
    ],
)
def test_updates_cannot_change_storage_relevant_fields(
    change: dict[str, Any], messages: list[str]
) -> None:
    old = established(definition())
    new = definition(**change)
    crds.prepare_for_update(new, old)
    assert [str(e) for e in crds.crd_update_errors(new, old)] == messages


def test_scope_and_kind_can_change_until_the_kind_is_served() -> None:
    new = definition(scope="Cluster", names={"plural": "widgets", "kind": "Gadget"})
    assert crds.crd_update_errors(new, definition()) == []


def test_a_new_storage_version_is_added_to_the_stored_versions() -> None:
    old = established(definition())
    new = definition(versions=[version(storage=False), version("v2")])
    crds.prepare_for_update(new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert new["status"]["conditions"] == old["status"]["conditions"]
    assert old["status"]["storedVersions"] == ["v1"]
    assert crds.crd_update_errors(new, old) == []


def test_a_broken_ca_bundle_is_rejected_once_the_kind_is_served() -> None:
    config = {"url": "https://x.example.com/", "caBundle": "bm8="}
    new = definition(conversion=webhook(clientConfig=config))
    assert crds.crd_errors(new) == []
    assert crds.crd_update_errors(new, definition()) == []
    assert [str(e) for e in crds.crd_update_errors(new, established(definition()))] == [
        f'{CLIENT}.caBundle: Invalid value: "bm8=": unable to load root certificates: '
        "unable to parse bytes as PEM block"
    ]
    assert crds.crd_update_errors(new, established(copy.deepcopy(new))) == []


def test_the_status_subresource_changes_only_the_status() -> None:
    old = definition()
    new = definition(scope="Cluster")
    crds.prepare_for_status_update(new, old)
    assert new["spec"] == old["spec"]
    new["status"]["acceptedNames"] = {"plural": "A", "kind": "k"}
    assert [str(e) for e in crds.crd_status_update_errors(new)] == [
        f'status.acceptedNames.plural: Invalid value: "A": {DNS1035}'
    ]


def test_errors_of_versions_that_differ_name_the_version() -> None:
    bad = {"openAPIV3Schema": {"type": "string"}}
    found = created(versions=[version(), version("v2", storage=False, schema=bad)])
    assert found == [
        'spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "string": '
        "must be object at the root"
    ]


def test_rules_are_compiled_only_on_valid_levels() -> None:
    seen: list[frozenset[int] | None] = []

    def check(schema: Any, field: str, faulty: frozenset[int] | None) -> list[FieldError]:
        seen.append(faulty)
        return [FieldError("Invalid", f"{field}.x", "y", "no")]

    assert [str(e) for e in crds.crd_errors(definition(), check_rules=check)] == [
        'spec.validation.openAPIV3Schema.x: Invalid value: "y": no'
    ]
    bad = version(schema={"openAPIV3Schema": {"type": "string"}})
    assert len(crds.crd_errors(definition(versions=[bad]), check_rules=check)) == 2
    broken = {"type": "string", "uniqueItems": True}
    schema = {"type": "object", "properties": {"a": broken, "b": {"type": "string"}}}
    faulty = version(schema={"openAPIV3Schema": schema})
    assert len(crds.crd_errors(definition(versions=[faulty]), check_rules=check)) == 2
    assert seen == [frozenset(), None, frozenset((id(schema), id(broken)))]


def test_warns_once_about_unknown_string_formats() -> None:
    text = {"type": "string", "format": "odd"}
    properties = {"a": text, "b": text, "c": {"type": "integer", "format": "int32"},
                  "d": {"type": "string", "format": "date-time"}}  # fmt: skip
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    crd = definition(versions=[version(schema=schema)])
    assert crds.crd_warnings(crd) == ['unrecognized format "odd"']


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["v1beta1", "v1"], "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"),
        (["v2", "v1", "v3alpha1"], "example.com/v2 Widget is deprecated"),
        (["old", "v1alpha1"], "example.com/old Widget is deprecated; use example.com/v1alpha1 "
         "Widget"),
        (["v1"], "example.com/v1 Widget is deprecated"),
    ],
)  # fmt: skip
def test_deprecation_warning_names_a_newer_version(names: list[str], wanted: str) -> None:
    versions = [version(n, storage=i == 0, deprecated=i == 0) for i, n in enumerate(names)]
    spec = definition(versions=versions)["spec"]
    assert crd_versions.deprecation_warning(spec, names[0]) == wanted
    assert crd_versions.deprecation_warning(spec, "v9") == ""


def test_a_deprecated_version_can_have_its_own_warning() -> None:
    spec = definition(versions=[version(deprecated=True, deprecationWarning="go")])["spec"]
    assert crd_versions.deprecation_warning(spec, "v1") == "go"


def test_versions_are_ordered_by_maturity() -> None:
    names = ["foo10", "v1", "v11alpha2", "foo1", "v3beta1", "v12alpha1", "v2", "v11beta2", "v10"]
    assert sorted(names, key=crd_versions.version_priority, reverse=True) == [
        "v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10",
    ]  # fmt: skip
