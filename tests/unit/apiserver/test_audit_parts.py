# SPDX-License-Identifier: Apache-2.0
"""The audit policy and the rotation of the audit log."""

from pathlib import Path
from typing import Any

import pytest

from rdd.api.types import Object
from rdd.apiserver.audit.log_file import AuditLogFile
from rdd.apiserver.audit.policy import API_VERSION, AuditPolicy, Level, PolicyError, load_policy
from rdd.apiserver.http.request import User, parse_path


def policy(*rules: Object, **members: Any) -> AuditPolicy:
    return AuditPolicy(
        {"apiVersion": API_VERSION, "kind": "Policy", "rules": list(rules), **members}
    )


@pytest.mark.parametrize(
    ("rule", "method", "path", "matches"),
    [
        pytest.param({}, "GET", "/api/v1/pods", True, id="empty"),
        pytest.param({"verbs": ["list"]}, "GET", "/api/v1/pods", True, id="verb"),
        pytest.param({"verbs": ["*"]}, "GET", "/api/v1/pods", False, id="verbs have no wildcard"),
        pytest.param({"userGroups": ["dev"]}, "GET", "/x", True, id="group"),
        pytest.param({"userGroups": ["ops"]}, "GET", "/x", False, id="other group"),
        pytest.param({"namespaces": ["n"]}, "GET", "/api/v1/namespaces/n/pods", True, id="ns"),
        pytest.param({"namespaces": [""]}, "GET", "/api/v1/nodes", True, id="cluster scope"),
        pytest.param({"namespaces": ["n"]}, "GET", "/healthz", False, id="ns of a path"),
        pytest.param({"resources": [{}]}, "GET", "/api/v1/pods", True, id="core group"),
        pytest.param({"resources": [{}]}, "GET", "/apis/apps/v1/x", False, id="another group"),
        pytest.param(
            {"resources": [{"resources": ["pods"]}]}, "GET", "/api/v1/namespaces/n/pods/p/log",
            False, id="subresource is not meant",
        ),
        pytest.param(
            {"resources": [{"resources": ["pods/log"]}]}, "GET", "/api/v1/namespaces/n/pods/p/log",
            True, id="subresource",
        ),
        pytest.param(
            {"resources": [{"resources": ["pods/*"]}]}, "GET", "/api/v1/namespaces/n/pods/p/log",
            True, id="all subresources",
        ),
        pytest.param(
            {"resources": [{"resources": ["*/log"]}]}, "GET", "/api/v1/namespaces/n/pods/p/log",
            True, id="subresource of all",
        ),
        pytest.param(
            {"resources": [{"resources": ["pods"], "resourceNames": ["p"]}]}, "GET",
            "/api/v1/namespaces/n/pods/q", False, id="name",
        ),
        pytest.param({"nonResourceURLs": ["/x*"]}, "GET", "/xy", True, id="url prefix"),
        pytest.param({"nonResourceURLs": ["*"]}, "GET", "/api/v1/pods", False, id="resource path"),
    ],
)  # fmt: skip
def test_matches_as_kubernetes_does(rule: Object, method: str, path: str, matches: bool) -> None:
    found = policy({"level": "Metadata", **rule})
    decision = found.decide(User("u", ("dev",)), parse_path(method, path))
    assert (decision.level is Level.METADATA) == matches


@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param({"kind": "Other"}, "must be a Policy", id="kind"),
        pytest.param({"rules": []}, "no rules", id="no rules"),
        pytest.param({"rules": {}}, "not a list", id="rules"),
        pytest.param({"rules": [{"level": "Much"}]}, "rules[0].level", id="level"),
        pytest.param({"rules": [{"level": "None", "x": 1}]}, "rules[0].x", id="unknown field"),
        pytest.param({"extra": 1}, 'unknown field "extra"', id="unknown member"),
        pytest.param({"omitStages": ["Never"]}, "omitStages", id="stage"),
        pytest.param(
            {"rules": [{"level": "None", "resources": [{}], "nonResourceURLs": ["/a"]}]},
            "both regular resources and non-resource URLs",
            id="both",
        ),
        pytest.param(
            {"rules": [{"level": "None", "nonResourceURLs": ["a"]}]}, "must begin with /", id="url"
        ),
        pytest.param(
            {"rules": [{"level": "None", "resources": [{"resourceNames": ["a"]}]}]},
            "requires at least one resource",
            id="names",
        ),
        pytest.param({"rules": [{"level": "None", "users": [1]}]}, "list of strings", id="users"),
    ],
)
def test_rejects_invalid_policies(source: Object, why: str) -> None:
    whole = {"apiVersion": API_VERSION, "kind": "Policy", "rules": [{"level": "None"}], **source}
    with pytest.raises(PolicyError) as error:
        AuditPolicy(whole)
    assert why in str(error.value)


def test_reads_yaml_and_names_the_file_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"apiVersion: {API_VERSION}\nkind: Policy\nrules:\n- level: Metadata\n")
    assert isinstance(load_policy(str(path)), AuditPolicy)
    for text in ("a: [", "- a", "\x00"):
        path.write_text(text)
        with pytest.raises(PolicyError, match="audit-policy-file"):
            load_policy(str(path))
    with pytest.raises(PolicyError, match="No such file"):
        load_policy(str(tmp_path / "none"))


def test_rotates_by_size_and_keeps_the_newest(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    path = tmp_path / "logs" / "audit.log"
    log = AuditLogFile(str(path), maximum_mib=1, backups=2, clock=lambda: now[0])
    line = b"x" * (600 * 1024) + b"\n"
    for _ in range(5):
        log.write(line)
        now[0] += 1.5
    log.close()
    names = sorted(p.name for p in path.parent.iterdir())
    assert names == [
        "audit-2023-11-14T22-13-24.500.log",
        "audit-2023-11-14T22-13-26.000.log",
        "audit.log",
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == line


def test_removes_old_logs_and_appends_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    old = tmp_path / "audit-2001-01-01T00-00-00.000.log"
    other = tmp_path / "audit-notes.log"
    for file in (old, other):
        file.write_text("")
    log = AuditLogFile(str(path), maximum_mib=1, days=1, clock=lambda: old.stat().st_mtime + 90000)
    log.write(b"first\n")
    log.close()
    log = AuditLogFile(str(path), maximum_mib=1, days=1, clock=lambda: old.stat().st_mtime + 90000)
    log.write(b"second\n")
    assert path.read_bytes() == b"first\nsecond\n"
    log.write(b"y" * (1 << 20) + b"\n")
    log.close()
    assert not old.exists()
    assert other.exists()


def test_a_full_disk_loses_events_and_reports_it_once(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLogFile("/dev/full")
    for _ in range(3):
        log.write(b"event\n")
    log.close()
    assert caplog.text.count("audit events are lost: No space left") == 1
