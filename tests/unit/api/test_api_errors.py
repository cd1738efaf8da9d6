# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from rdd.api import errors, fielderrors


@pytest.mark.parametrize(
    ("error", "code", "reason", "message", "details"),
    [
        pytest.param(
            errors.NotFound.of("roles", "rbac.authorization.k8s.io", "a"), 404, "NotFound",
            'roles.rbac.authorization.k8s.io "a" not found',
            {"name": "a", "group": "rbac.authorization.k8s.io", "kind": "roles"}, id="not found",
        ),
        pytest.param(
            errors.AlreadyExists.of("configmaps", "", "a"), 409, "AlreadyExists",
            'configmaps "a" already exists', {"name": "a", "kind": "configmaps"}, id="exists",
        ),
        pytest.param(
            errors.Conflict.of("configmaps", "", "a"), 409, "Conflict",
            'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
            "apply your changes to the latest version and try again",
            {"name": "a", "kind": "configmaps"}, id="conflict",
        ),
        pytest.param(
            errors.Forbidden.to_object("configmaps", "", "", "no"), 403, "Forbidden",
            "configmaps is forbidden: no", {"kind": "configmaps"}, id="forbidden without a name",
        ),
        pytest.param(
            errors.InternalError.because("x"), 500, "InternalError", "Internal error occurred: x",
            {"causes": [{"message": "x"}]}, id="internal",
        ),
        pytest.param(
            errors.TooManyRequests("busy", retry_after_s=2), 429, "TooManyRequests", "busy",
            {"retryAfterSeconds": 2}, id="retry after",
        ),
        pytest.param(errors.BadRequest("bad"), 400, "BadRequest", "bad", None, id="no details"),
    ],
)  # fmt: skip
def test_an_error_becomes_a_status_and_back(
    error: errors.ApiError, code: int, reason: str, message: str, details: dict[str, Any] | None
) -> None:
    status = error.to_status()
    assert (status["code"], status["reason"], status["message"]) == (code, reason, message)
    assert status.get("details") == details
    parsed = errors.from_status(status)
    assert type(parsed) is type(error)
    assert parsed.to_status() == status


def test_invalid_lists_every_cause_once() -> None:
    problem = fielderrors.invalid("metadata.uid", "x", "field is immutable")
    other = fielderrors.required("metadata.name", "name or generateName is required")
    status = errors.Invalid.of("ConfigMap", "", "a", [problem, problem, other]).to_status()
    assert status["message"] == (
        'ConfigMap "a" is invalid: [metadata.uid: Invalid value: "x": field is immutable, '
        "metadata.name: Required value: name or generateName is required]"
    )
    assert [c["reason"] for c in status["details"]["causes"]] == [
        "FieldValueInvalid", "FieldValueInvalid", "FieldValueRequired",
    ]  # fmt: skip
    assert errors.Invalid.of("ConfigMap", "", "a", [problem, problem]).message == (
        'ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable'
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [(409, errors.Conflict), (410, errors.Gone), (404, errors.NotFound), (418, errors.ApiError)],
)
def test_status_without_a_reason_is_classified_by_its_code(
    code: int, expected: type[errors.ApiError]
) -> None:
    error = errors.from_status({"code": code, "message": "m"})
    assert type(error) is expected
    assert error.code == code


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (fielderrors.not_supported("f", "x", ["a", "b"]),
         'f: Unsupported value: "x": supported values: "a", "b"'),
        (fielderrors.duplicate("f[1]", "x"), 'f[1]: Duplicate value: "x"'),
        (fielderrors.forbidden("f", "no"), "f: Forbidden: no"),
        (fielderrors.not_found("f", "x"), 'f: Not found: "x"'),
        (fielderrors.too_long("f", 1), "f: Too long: may not be more than 1 byte"),
        (fielderrors.too_many("f", 3, 2), "f: Too many: 3: must have at most 2 items"),
        (fielderrors.type_invalid("f", None, "t"), "f: Invalid value: null: t"),
        (fielderrors.invalid("f", fielderrors.OMIT, "t"), "f: Invalid value: t"),
        (fielderrors.required("f"), "f: Required value"),
    ],
)  # fmt: skip
def test_field_errors_are_worded_as_in_kubernetes(error: fielderrors.FieldError, text: str) -> None:
    assert str(error) == text


def test_paths_are_built_from_members_items_and_keys() -> None:
    path = fielderrors.child(fielderrors.child("", "spec"), "ports")
    assert fielderrors.index(path, 0) == "spec.ports[0]"
    assert fielderrors.key(path, "a") == "spec.ports[a]"
