# SPDX-License-Identifier: Apache-2.0
"""Rules of webhook configurations, admission policies and bindings."""

from typing import Any

import pytest

from rdd.api import fielderrors
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds import catalog, policies, webhooks
from rdd.apiserver.kinds.expressions import Scope

PACKAGE = "io.k8s.api.admissionregistration.v1."
RULE: Object = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}
HOOK: Object = {
    "name": "h.example.com",
    "clientConfig": {"url": "https://x.example.com/h"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
validating, mutating = webhooks.ValidatingWebhookStrategy(), webhooks.MutatingWebhookStrategy()


def texts(errors: list[FieldError]) -> list[str]:
    return [str(e) for e in errors]


def read(kind: str, members: Object, strategy: Any) -> Object:
    decode = catalog.decoder(PACKAGE + kind)
    obj = decode({"metadata": {"name": "w"}, **members}, [])
    strategy.normalise(obj)
    return obj


def hooks(*changes: Object) -> Object:
    given = {"webhooks": [{**HOOK, **change} for change in changes]}
    return read("ValidatingWebhookConfiguration", given, validating)


def test_webhook_defaults() -> None:
    obj = read(
        "ValidatingWebhookConfiguration",
        {"webhooks": [{**HOOK, "clientConfig": {"service": {"name": "s", "namespace": "n"}}}]},
        validating,
    )
    assert obj["webhooks"] == [
        {
            "name": "h.example.com",
            "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
            "rules": [{**RULE, "scope": "*"}],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        }
    ]
    assert validating.validate(obj).errors == []


def test_mutating_webhooks_are_called_once_by_default() -> None:
    obj = read("MutatingWebhookConfiguration", {"webhooks": [HOOK]}, mutating)
    assert obj["webhooks"][0]["reinvocationPolicy"] == "Never"
    assert mutating.validate(obj).errors == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            {"name": "short"},
            [
                'name: Invalid value: "short": should be a domain with at least three segments '
                "separated by dots"
            ],
            id="name",
        ),
        pytest.param(
            {"sideEffects": None},
            ["sideEffects: Required value: must specify one of None, NoneOnDryRun"],
            id="no-side-effects",
        ),
        pytest.param(
            {"sideEffects": "Some"},
            [
                'sideEffects: Unsupported value: "Some": supported values: "None", '
                '"NoneOnDryRun"'
            ],
            id="side-effects",
        ),
        pytest.param(
            {"admissionReviewVersions": []},
            ["admissionReviewVersions: Required value: must specify one of v1, v1beta1"],
            id="no-versions",
        ),
        pytest.param(
            {"admissionReviewVersions": ["v0"]},
            [
                'admissionReviewVersions: Invalid value: ["v0"]: must include at least one of '
                "v1, v1beta1"
            ],
            id="unknown-versions",
        ),
        pytest.param(
            {"admissionReviewVersions": ["v1", "v1"]},
            ['admissionReviewVersions[1]: Invalid value: "v1": duplicate version'],
            id="version-twice",
        ),
        pytest.param(
            {"timeoutSeconds": 31},
            [
                "timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 "
                "seconds"
            ],
            id="timeout",
        ),
        pytest.param(
            {"failurePolicy": "Maybe"},
            ['failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'],
            id="failure-policy",
        ),
        pytest.param(
            {"clientConfig": {}},
            ["clientConfig: Required value: exactly one of url or service is required"],
            id="no-client-config",
        ),
        pytest.param(
            {"clientConfig": {"url": "http://u:p@x.example.com/?q=1#f"}},
            [
                "clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL "
                "scheme; desired format: https://host[/path]",
                'clientConfig.url: Invalid value: "u:p": user information is not permitted in '
                "the URL",
                'clientConfig.url: Invalid value: "f": fragments are not permitted in the URL',
                'clientConfig.url: Invalid value: "q=1": query parameters are not permitted in '
                "the URL",
            ],
            id="url",
        ),
        pytest.param(
            {"clientConfig": {"url": "https:///x"}},
            [
                'clientConfig.url: Invalid value: "": host must be specified; desired format: '
                "https://host[/path]"
            ],
            id="no-host",
        ),
        pytest.param(
            {"clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/a//b",
                                          "port": 70000}}},
            [
                "clientConfig.service.port: Invalid value: 70000: port is not valid: must be "
                "between 1 and 65535, inclusive",
                'clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty',
            ],
            id="service",
        ),
        pytest.param(
            {"rules": [{}]},
            [
                "rules[0].operations: Required value",
                "rules[0].apiGroups: Required value",
                "rules[0].apiVersions: Required value",
                "rules[0].resources: Required value",
            ],
            id="empty-rule",
        ),
        pytest.param(
            {"rules": [{**RULE, "operations": ["FROB"], "resources": ["*", "x"]}]},
            [
                'rules[0].operations[0]: Unsupported value: "FROB": supported values: "*", '
                '"CONNECT", "CREATE", "DELETE", "UPDATE"',
                "rules[0].resources: Invalid value: [\"*\",\"x\"]: if '*' is present, must not "
                "specify other resources without subresources",
            ],
            id="operations-and-resources",
        ),
        pytest.param(
            {"rules": [{**RULE, "resources": ["a/*", "a/b", "*/b", "c/b"], "scope": "Here"}]},
            [
                "rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not "
                "specify a/b",
                "rules[0].resources[3]: Invalid value: \"c/b\": if '*/b' is present, must not "
                "specify c/b",
                'rules[0].scope: Unsupported value: "Here": supported values: "*", "Cluster", '
                '"Namespaced"',
            ],
            id="subresources-and-scope",
        ),
        pytest.param(
            {"rules": [{**RULE, "apiGroups": ["*", "a"], "apiVersions": ["", "*"]}]},
            [
                "rules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not "
                "specify other API groups",
                "rules[0].apiVersions: Invalid value: [\"\",\"*\"]: if '*' is present, must not "
                "specify other API versions",
                "rules[0].apiVersions[0]: Required value",
            ],
            id="groups-and-versions",
        ),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "Nope"}]}},
            [
                "namespaceSelector.matchExpressions[0].operator: Invalid value: \"Nope\": not a "
                "valid selector operator"
            ],
            id="selector",
        ),
    ],
)  # fmt: skip
def test_rejects_webhooks_with_the_messages_of_kubernetes(
    change: Object, expected: list[str]
) -> None:
    assert texts(validating.validate(hooks(change)).errors) == [
        f"webhooks[0].{e}" for e in expected
    ]


def test_webhook_names_are_unique() -> None:
    assert texts(validating.validate(hooks({}, {})).errors) == [
        'webhooks[1].name: Duplicate value: "h.example.com"'
    ]


def test_updates_are_as_lenient_as_the_stored_configuration() -> None:
    old = hooks({"sideEffects": "Some"}, {"sideEffects": "Some"})
    assert validating.validate(old).errors != []
    assert validating.validate_update(old, old).errors == []
    assert validating.validate_update(hooks({"sideEffects": "Some"}), hooks({})).errors != []


class ExpressionRecorder:
    """Records the checked expressions; rejects the expression `1`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Scope]] = []

    def check(self, expression: str, path: str, scope: Scope) -> list[FieldError]:
        self.seen.append((expression, scope))
        detail = "must evaluate to bool but got int"
        return [fielderrors.invalid(path, expression, detail)] if expression == "1" else []


def test_match_conditions_are_checked_as_expressions() -> None:
    recorder = ExpressionRecorder()
    strategy = webhooks.ValidatingWebhookStrategy(recorder.check)
    obj = hooks({"matchConditions": [{"name": "a b", "expression": " 1 "}, {"name": "a b"}]})
    assert [e.split(": name part")[0] for e in texts(strategy.validate(obj).errors)] == [
        'webhooks[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but '
        "got int",
        'webhooks[0].matchConditions[0].name: Invalid value: "a b"',
        "webhooks[0].matchConditions[1].expression: Required value",
        'webhooks[0].matchConditions[1].name: Invalid value: "a b"',
        'webhooks[0].matchConditions[1].name: Duplicate value: "a b"',
    ]
    assert recorder.seen == [("1", Scope())]


def test_at_most_64_match_conditions() -> None:
    many = [{"name": f"c{i}", "expression": "true"} for i in range(65)]
    assert texts(validating.validate(hooks({"matchConditions": many})).errors) == [
        "webhooks[0].matchConditions: Too many: 65: must have at most 64 items"
    ]


# ------------------------------------------------------------------- policies

policy = policies.PolicyStrategy()
POLICY: Object = {
    "matchConstraints": {"resourceRules": [RULE]},
    "validations": [{"expression": "true"}],
}


def policy_of(**change: Any) -> Object:
    return read("ValidatingAdmissionPolicy", {"spec": {**POLICY, **change}}, policy)


def test_policy_defaults() -> None:
    assert policy_of()["spec"] == {
        "matchConstraints": {
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [{**RULE, "scope": "*"}],
            "matchPolicy": "Equivalent",
        },
        "validations": [{"expression": "true"}],
        "failurePolicy": "Fail",
    }
    assert policy.validate(policy_of()).errors == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            {"validations": []},
            [
                "validations: Required value: validations or auditAnnotations must contain at "
                "least one item",
                "auditAnnotations: Required value: validations or auditAnnotations must contain "
                "at least one item",
            ],
            id="nothing",
        ),
        pytest.param(
            {"validations": [{"expression": " "}]},
            ["validations[0].expression: Required value: expression is not specified"],
            id="no-expression",
        ),
        pytest.param(
            {"matchConstraints": None}, ["matchConstraints: Required value"], id="no-constraints"
        ),
        pytest.param(
            {"matchConstraints": {}},
            ["matchConstraints.resourceRules: Required value"],
            id="no-rules",
        ),
        pytest.param(
            {"matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["a", "a"]}]}},
            ['matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"'],
            id="name-twice",
        ),
        pytest.param(
            {"matchConstraints": {"resourceRules": [{**RULE, "scope": ""}], "matchPolicy": ""}},
            [
                'matchConstraints.matchPolicy: Unsupported value: "": supported values: '
                '"Equivalent", "Exact"',
                'matchConstraints.resourceRules[0].scope: Unsupported value: "": supported '
                'values: "*", "Cluster", "Namespaced"',
            ],
            id="empty-is-not-absent",
        ),
        pytest.param(
            {"failurePolicy": "Maybe"},
            ['failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'],
            id="failure-policy",
        ),
        pytest.param(
            {"validations": [{"expression": "true", "reason": "Nonsense", "message": "a\nb"}]},
            [
                'validations[0].message: Invalid value: "a\\nb": message must not contain line '
                "breaks",
                'validations[0].reason: Unsupported value: "Nonsense": supported values: '
                '"Forbidden", "Invalid", "RequestEntityTooLarge"',
            ],
            id="reason-and-message",
        ),
        pytest.param(
            {"paramKind": {"apiVersion": "", "kind": ""}},
            ["paramKind.apiVersion: Required value", "paramKind.kind: Required value"],
            id="empty-param-kind",
        ),
        pytest.param(
            {"paramKind": {"apiVersion": "a/b/c", "kind": "K"}},
            ['paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
            id="param-version",
        ),
        pytest.param(
            {"variables": [{"name": "1bad", "expression": "1"}, {"name": "in"}]},
            [
                'variables[0].name: Invalid value: "1bad": must be a valid CEL identifier',
                'variables[1].name: Invalid value: "in": must be a valid CEL identifier',
                "variables[1].expression: Required value: expression is not specified",
            ],
            id="variables",
        ),
        pytest.param(
            {"auditAnnotations": [{"key": "k", "valueExpression": "''"}, {"key": "k"}]},
            [
                "auditAnnotations[1].valueExpression: Required value: valueExpression is not "
                "specified",
                'auditAnnotations[1].key: Duplicate value: "k"',
            ],
            id="annotations",
        ),
    ],
)
def test_rejects_policies_with_the_messages_of_kubernetes(
    change: Object, expected: list[str]
) -> None:
    assert texts(policy.validate(policy_of(**change)).errors) == [f"spec.{e}" for e in expected]


def test_expressions_of_a_policy_are_checked_in_their_scope() -> None:
    recorder = ExpressionRecorder()
    obj = policy_of(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "v", "expression": "2"}],
        validations=[{"expression": "true", "messageExpression": "'m'"}],
        auditAnnotations=[{"key": "k", "valueExpression": "'a'"}],
    )
    assert policies.PolicyStrategy(recorder.check).validate(obj).errors == []
    variables = (("v", "2"),)
    assert recorder.seen == [
        ("2", Scope("any", True, variables=())),
        ("true", Scope("bool", True, variables=variables)),
        ("'m'", Scope("string", True, False, variables)),
        ("'a'", Scope("string or null", True, variables=variables)),
    ]


def test_policy_status_is_checked_and_written_separately() -> None:
    old = {**policy_of(), "status": {"observedGeneration": 1}}
    new = policy_of(validations=[])
    new["metadata"]["labels"] = {"a": "b"}
    new["status"] = {"conditions": [{"type": "A", "status": "Maybe", "reason": "1"}]}
    policy.prepare_for_update(new, old, subresource="status")
    assert new["spec"] == old["spec"]
    assert "labels" not in new["metadata"]
    found = texts(policy.validate_update(new, old, subresource="status").errors)
    assert [e.split(" (e.g.")[0] for e in found] == [
        'status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", '
        '"True", "Unknown"',
        "status.conditions[0].lastTransitionTime: Required value: must be set",
        'status.conditions[0].reason: Invalid value: "1": a condition reason must start with '
        "alphabetic character, optionally followed by a string of alphanumeric characters or "
        "'_,:', and must end with an alphanumeric character or '_'",
    ]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        pytest.param("spec.validations[0].expression", [], id="path"),
        pytest.param(" ", ["Required value"], id="empty"),
        pytest.param("spec[", ['Invalid value: "spec[": invalid JSONPath: '], id="malformed"),
    ],
)
def test_field_of_a_warning_is_a_json_path(ref: str, expected: list[str]) -> None:
    warning = {"fieldRef": ref, "warning": "w"}
    new = {**policy_of(), "status": {"typeChecking": {"expressionWarnings": [warning]}}}
    found = texts(policy.validate_update(new, policy_of(), subresource="status").errors)
    path = "status.typeChecking.expressionWarnings[0].fieldRef: "
    assert [e.startswith(path + text) for e, text in zip(found, expected, strict=True)] == [
        True for _ in expected
    ]


binding = policies.PolicyBindingStrategy()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"policyName": "p", "validationActions": ["Deny"]}, [], id="legal"),
        pytest.param(
            {},
            [
                "policyName: Required value",
                "validationActions: Required value: at least one validation action is required",
            ],
            id="empty",
        ),
        pytest.param(
            {"policyName": "p", "validationActions": ["Nope"]},
            [
                'validationActions[0]: Unsupported value: "Nope": supported values: "Audit", '
                '"Deny", "Warn"'
            ],
            id="unknown-action",
        ),
        pytest.param(
            {"policyName": "p", "validationActions": ["Deny", "Warn", "Deny"]},
            [
                'validationActions[2]: Duplicate value: "Deny"',
                'validationActions: Invalid value: ["Deny","Warn","Deny"]: must not contain both '
                "Deny and Warn (repeating the same validation failure information in the API "
                "response and headers serves no purpose)",
            ],
            id="deny-and-warn",
        ),
        pytest.param(
            {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "x"}},
            ["paramRef.parameterNotFoundAction: Required value"],
            id="param-without-action",
        ),
        pytest.param(
            {
                "policyName": "p",
                "validationActions": ["Deny"],
                "paramRef": {"name": "x", "selector": {}, "parameterNotFoundAction": "Allow"},
            },
            [
                "paramRef.name: Forbidden: name and selector are mutually exclusive",
                "paramRef.selector: Forbidden: name and selector are mutually exclusive",
            ],
            id="param-by-name-and-selector",
        ),
        pytest.param(
            {
                "policyName": "p",
                "validationActions": ["Deny"],
                "paramRef": {"parameterNotFoundAction": "Maybe"},
            },
            [
                "paramRef: Required value: one of name or selector must be specified",
                'paramRef.parameterNotFoundAction: Unsupported value: "Maybe": supported values: '
                '"Deny", "Allow"',
            ],
            id="param-by-nothing",
        ),
    ],
)
def test_bindings_name_policy_parameters_and_actions(spec: Object, expected: list[str]) -> None:
    obj = read("ValidatingAdmissionPolicyBinding", {"spec": spec}, binding)
    assert texts(binding.validate(obj).errors) == [f"spec.{e}" for e in expected]
