# SPDX-License-Identifier: Apache-2.0
"""The Table form: ages, columns and cells of built-in kinds, rows and their objects."""

from dataclasses import dataclass
from typing import Any

import pytest

from rdd.api.types import Object
from rdd.apiserver.http import tables
from rdd.apiserver.kinds import catalog
from rdd.apiserver.kinds.strategy import Strategy, TableColumn

NOW = 1767323045.0  # 2026-01-02T03:04:05Z
KINDS = {(k.group, k.kind): k for k in catalog.builtin_kinds()}
META: Object = {"name": "a", "creationTimestamp": "2026-01-02T03:04:00Z"}


@dataclass
class Shown:
    strategy: Strategy

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        return self.strategy.columns


@pytest.mark.parametrize(
    ("timestamp", "age"),
    [
        pytest.param(None, "<unknown>", id="none"),
        pytest.param("2026-01-02T03:04:05Z", "0s", id="now"),
        pytest.param("2026-01-02T03:04:06Z", "0s", id="clock-skew"),
        pytest.param("2026-01-02T03:05:05Z", "<invalid>", id="future"),
        pytest.param("2026-01-02T03:00:00Z", "4m5s", id="minutes"),
        pytest.param("2025-12-25T03:04:05Z", "8d", id="days"),
        pytest.param("nonsense", "<invalid>", id="no-time"),
    ],
)
def test_age(timestamp: str | None, age: str) -> None:
    assert tables.age(timestamp, now=NOW) == age


@pytest.mark.parametrize(
    ("group", "kind", "members", "headings", "cells"),
    [
        pytest.param("", "ConfigMap", {"data": {"k": "v"}, "binaryData": {"b": ""}},
                     ["Name", "Data", "Age"], ["a", 2, "5s"], id="configmaps"),
        pytest.param("", "Secret", {"type": "T", "data": {"k": ""}},
                     ["Name", "Type", "Data", "Age"], ["a", "T", 1, "5s"], id="secrets"),
        pytest.param("", "ServiceAccount", {}, ["Name", "Age"], ["a", "5s"], id="accounts"),
        pytest.param("", "Namespace", {"status": {"phase": "Active"}},
                     ["Name", "Status", "Age"], ["a", "Active", "5s"], id="namespaces"),
        pytest.param("", "ResourceQuota",
                     {"status": {"hard": {"pods": "5", "limits.cpu": "1", "cpu": "2"},
                                 "used": {"pods": "1"}}},
                     ["Name", "Request", "Limit", "Age"],
                     ["a", "cpu: 0/2, pods: 1/5", "limits.cpu: 0/1", "5s"], id="quotas"),
        pytest.param("coordination.k8s.io", "Lease", {"spec": {"holderIdentity": "me"}},
                     ["Name", "Holder", "Age"], ["a", "me", "5s"], id="leases"),
        pytest.param("rbac.authorization.k8s.io", "Role", {},
                     ["Name", "Created At"], ["a", "2026-01-02T03:04:00Z"], id="roles"),
        pytest.param("rbac.authorization.k8s.io", "RoleBinding",
                     {"roleRef": {"kind": "Role", "name": "r"},
                      "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
                                   {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]},
                     ["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"],
                     ["a", "Role/r", "5s", "u, v", "", "n/s"], id="bindings"),
        pytest.param("admissionregistration.k8s.io", "MutatingWebhookConfiguration",
                     {"webhooks": [{}]}, ["Name", "Webhooks", "Age"], ["a", 1, "5s"],
                     id="webhooks"),
        pytest.param("admissionregistration.k8s.io", "ValidatingAdmissionPolicy",
                     {"spec": {"validations": [{}], "paramKind": {"apiVersion": "g/v1",
                                                                  "kind": "K"}}},
                     ["Name", "Validations", "ParamKind", "Age"], ["a", 1, "g/v1/K", "5s"],
                     id="policies"),
        pytest.param("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding",
                     {"spec": {"policyName": "p", "paramRef": {"name": "x", "namespace": "n"}}},
                     ["Name", "PolicyName", "ParamRef", "Age"], ["a", "p", "n/x", "5s"],
                     id="policy-bindings"),
        pytest.param("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding",
                     {"spec": {"paramRef": {"selector": {"matchLabels": {"a": "b"}}}}},
                     ["Name", "PolicyName", "ParamRef", "Age"],
                     ["a", "", "&LabelSelector{MatchLabels:map[string]string{a: b,},"
                      "MatchExpressions:[]LabelSelectorRequirement{},}", "5s"],
                     id="policy-bindings-by-selector"),
        pytest.param("apiextensions.k8s.io", "CustomResourceDefinition", {},
                     ["Name", "Created At"], ["a", "2026-01-02T03:04:00Z"], id="definitions"),
        pytest.param("apiregistration.k8s.io", "APIService", {},
                     ["Name", "Service", "Available", "Age"], ["a", "Local", "Unknown", "5s"],
                     id="api-services"),
    ],
)  # fmt: skip
def test_columns_and_cells(
    group: str, kind: str, members: Object, headings: list[str], cells: list[Any]
) -> None:
    shown = Shown(KINDS[group, kind].strategy)
    table = tables.table(shown, [{"metadata": META, **members}], now=NOW, revision="7")
    assert [c["name"] for c in table["columnDefinitions"]] == headings
    assert table["rows"][0]["cells"] == cells
    assert table["metadata"] == {"resourceVersion": "7"}


def test_subjects_of_bindings_are_shown_in_wide_output_only() -> None:
    columns = KINDS["rbac.authorization.k8s.io", "RoleBinding"].strategy.columns
    assert [c.priority for c in columns] == [0, 0, 0, 1, 1, 1]


def test_column_definitions_carry_type_format_and_description() -> None:
    shown = Shown(KINDS["", "ConfigMap"].strategy)
    name, data, _ = tables.table(shown, [], now=NOW)["columnDefinitions"]
    assert (name["type"], name["format"], name["priority"]) == ("string", "name", 0)
    assert name["description"].startswith("Name must be unique within a namespace.")
    assert data["description"].startswith("Data contains the configuration data.")


CONFIG_MAP: Object = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": META, "data": {}}


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        pytest.param("None", None, id="none"),
        pytest.param("Object", CONFIG_MAP, id="object"),
        pytest.param(
            "Metadata",
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1beta1",
                "metadata": META,
            },
            id="metadata",
        ),
    ],
)
def test_rows_include_the_requested_object(include: str, expected: Object | None) -> None:
    shown = Shown(KINDS["", "ConfigMap"].strategy)
    table = tables.table(
        shown, [CONFIG_MAP], now=NOW, include_object=include, version="v1beta1", continue_="c"
    )
    assert table["apiVersion"] == "meta.k8s.io/v1beta1"
    assert table["metadata"] == {"continue": "c"}
    assert table["rows"][0]["object"] == expected


def test_bookmark_is_a_row_without_an_object_of_its_own() -> None:
    shown = Shown(KINDS["", "ConfigMap"].strategy)
    table = tables.bookmark(shown, {"resourceVersion": "9"})
    assert table["columnDefinitions"] is None
    assert table["metadata"] == {"resourceVersion": "9"}
    assert table["rows"][0]["cells"] == ["", 0, "<unknown>"]
    assert table["rows"][0]["object"]["metadata"] == {"resourceVersion": "9"}
