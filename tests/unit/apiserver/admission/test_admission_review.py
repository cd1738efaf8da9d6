# SPDX-License-Identifier: Apache-2.0
"""Parsing and validation of webhook responses."""

import base64
from typing import Any

import pytest

from rdd.api.types import Object
from rdd.apiserver.admission.review import InvalidResponse, denial, parse_response

UID = "11111111-2222-3333-4444-555555555555"
PATCH = base64.b64encode(b"[]").decode()


def review(**response: Any) -> Object:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": UID, "allowed": True, **response},
    }


def read(found: Any, *, version: str = "v1", is_mutating: bool = False) -> Any:
    return parse_response(found, version=version, uid=UID, is_mutating=is_mutating)


def test_a_response_carries_decision_patch_warnings_and_annotations() -> None:
    response = read(
        review(
            patch=f"{PATCH[:2]}\n{PATCH[2:]}",
            patchType="JSONPatch",
            warnings=["w"],
            auditAnnotations={"k": "v"},
            status={"code": 403, "message": "m", "unknown": 1},
        ),
        is_mutating=True,
    )
    assert (response.is_allowed, response.patch, response.patch_type) == (True, b"[]", "JSONPatch")
    assert (response.warnings, response.audit_annotations) == (("w",), {"k": "v"})
    assert response.status == {"code": 403, "message": "m", "reason": ""}


def test_null_members_are_absent_members() -> None:
    members = ("patch", "patchType", "warnings", "auditAnnotations", "status")
    response = read(review(**dict.fromkeys(members)))
    assert (response.is_allowed, response.patch, response.status["code"]) == (True, b"", 0)
    assert read({**review(), "response": {"uid": UID}}).is_allowed is False


@pytest.mark.parametrize(
    ("found", "is_mutating", "problem"),
    [
        pytest.param({**review(), "response": None}, False, "webhook response was absent", id="no"),
        pytest.param(
            review(uid="x"), False, f'expected response.uid="{UID}", got "x"', id="wrong-uid"
        ),
        pytest.param(
            review(uid=None), False, f'expected response.uid="{UID}", got ""', id="no-uid"
        ),
        pytest.param(
            {"response": review()["response"]},
            False,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            id="no-kind",
        ),
        pytest.param(
            {**review(), "kind": ""},
            False,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, "
            "got admission.k8s.io/v1, Kind=",
            id="empty-kind",
        ),
        pytest.param(
            review(patch=PATCH, patchType="JSONPatch"),
            False,
            "validating webhook may not return response.patch",
            id="patch-of-validating",
        ),
        pytest.param(
            review(patchType="JSONPatch"),
            False,
            "validating webhook may not return response.patchType",
            id="patch-type-of-validating",
        ),
        pytest.param(
            review(patch=PATCH),
            True,
            "webhook returned response.patch but not response.patchType",
            id="patch-without-type",
        ),
        pytest.param(
            review(patchType="JSONPatch"),
            True,
            "webhook returned response.patchType but not response.patch",
            id="type-without-patch",
        ),
        pytest.param(
            review(patch=PATCH, patchType=""),
            True,
            'webhook returned invalid response.patchType of ""',
            id="empty-type",
        ),
    ],
)
def test_rejects_a_response_that_does_not_match_the_request(
    found: Object, is_mutating: bool, problem: str
) -> None:
    with pytest.raises(InvalidResponse) as caught:
        read(found, is_mutating=is_mutating)
    assert (str(caught.value), caught.value.is_decoded) == (problem, True)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(None, id="null"),
        pytest.param("text", id="text"),
        pytest.param([], id="array"),
        pytest.param({**review(), "kind": 1}, id="kind"),
        pytest.param({**review(), "kind": "Status"}, id="other-kind"),
        pytest.param({**review(), "apiVersion": "admission.k8s.io/v1beta1"}, id="other-version"),
        pytest.param({**review(), "response": []}, id="response"),
        pytest.param(review(uid=1), id="uid"),
        pytest.param(review(allowed="yes"), id="allowed"),
        pytest.param(review(allowed=1), id="allowed-number"),
        pytest.param(review(patch=[]), id="patch"),
        pytest.param(review(patch="%"), id="patch-no-base64"),
        pytest.param(review(patch="ü"), id="patch-no-ascii"),
        pytest.param(review(patchType=1), id="patch-type"),
        pytest.param(review(warnings="w"), id="warnings"),
        pytest.param(review(warnings=[1]), id="warning"),
        pytest.param(review(auditAnnotations=[]), id="annotations"),
        pytest.param(review(auditAnnotations={"k": 1}), id="annotation"),
        pytest.param(review(status="no"), id="status"),
        pytest.param(review(status={"code": "403"}), id="code"),
        pytest.param(review(status={"code": True}), id="code-bool"),
        pytest.param(review(status={"code": 4.5}), id="code-float"),
        pytest.param(review(status={"message": {}}), id="message"),
        pytest.param(review(status={"details": []}), id="details"),
        pytest.param(review(status={"details": {"causes": {}}}), id="causes"),
        pytest.param(review(status={"details": {"causes": ["c"]}}), id="cause"),
        pytest.param(review(status={"details": {"causes": [{"field": 1}]}}), id="cause-field"),
        pytest.param(review(status={"details": {"retryAfterSeconds": "1"}}), id="retry"),
    ],
)
def test_rejects_a_response_with_wrong_types(found: Any) -> None:
    with pytest.raises(InvalidResponse) as caught:
        read(found, is_mutating=True)
    assert not caught.value.is_decoded


def test_the_older_version_checks_neither_uid_nor_patch_type() -> None:
    found = {"response": {"allowed": True, "uid": "x", "patch": PATCH}}
    assert read(found, version="v1beta1", is_mutating=True).patch_type == "JSONPatch"
    assert read(found, version="v1beta1").patch == b""


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        pytest.param({}, 400, "", "without explanation", id="nothing"),
        pytest.param({"message": "m"}, 400, "", ": m", id="message"),
        pytest.param({"reason": "R"}, 400, "R", ": R", id="reason"),
        pytest.param({"message": "m", "reason": "R", "code": 410}, 410, "R", ": m", id="all"),
        pytest.param({"message": "m", "code": 200}, 400, "", ": m", id="success"),
        pytest.param({"message": "m", "code": -5}, 400, "", ": m", id="negative"),
        pytest.param({"message": "m", "code": 12345}, 400, "", ": m", id="beyond-http"),
    ],
)
def test_a_denial_is_never_a_success(status: Object, code: int, reason: str, message: str) -> None:
    error = denial("h.example.com", status)
    assert (error.code, error.reason) == (code, reason)
    text = 'admission webhook "h.example.com" denied the request'
    assert error.message == f"{text}{message if message[0] == ':' else f' {message}'}"
    assert error.details is None


def test_details_of_a_denial_reach_the_client() -> None:
    details = {"causes": [{"field": "f"}], "retryAfterSeconds": 3}
    error = denial("h", {"code": 429, "details": details})
    assert error.to_status()["details"] == details
    assert error.retry_after_s == 3
