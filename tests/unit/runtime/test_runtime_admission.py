# SPDX-License-Identifier: Apache-2.0
"""AdmissionReviews: from the result or exception of a handler to a response."""

import base64
from typing import Any

import orjson
import pytest

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.kinds.notary import Notary, NotarySpec
from rdd.runtime import DELETE, AdmissionRequest, Denied, defaulting, refuse_deletion_of_owned
from rdd.runtime.admission import Reviewer, Webhook, validating


def question(obj: Object | None, old: Object | None = None, **members: Any) -> Object:
    request = {
        "uid": "u1",
        "operation": "CREATE",
        "namespace": "default",
        "name": "n",
        "userInfo": {"username": "me", "groups": ["g"]},
        "object": obj,
        "oldObject": old,
        **members,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def notary(**spec: Any) -> Object:
    return {"metadata": {"name": "n", "namespace": "default"}, "spec": spec}


async def answer(webhook: Webhook, review: Object) -> Object:
    reviewer = Reviewer()
    reviewer.add(webhook)
    answered = await reviewer.review(webhook.path, review)
    assert (answered["kind"], answered["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    response: Object = answered["response"]
    assert response["uid"] == "u1"
    return response


async def test_validator_gets_typed_objects_and_the_user() -> None:
    seen: list[AdmissionRequest[Notary]] = []

    async def check(request: AdmissionRequest[Notary]) -> None:
        seen.append(request)
        request.warn("careful")

    review = question(notary(value="b"), notary(value="a"), operation="UPDATE", dryRun=True)
    response = await answer(validating("v", Notary, check), review)
    assert response == {"uid": "u1", "allowed": True, "warnings": ["careful"]}
    (request,) = seen
    assert request.old is not None
    assert (request.object.spec.value, request.old.spec.value) == ("b", "a")
    assert (str(request.key), request.user, request.groups) == ("default/n", "me", ("g",))
    assert request.is_dry_run


@pytest.mark.parametrize(
    ("raised", "code", "reason", "message"),
    [
        pytest.param(Denied("no"), 403, "Forbidden", "no", id="denied"),
        pytest.param(
            errors.NotFound.of("configmaps", "", "x"), 404, "NotFound",
            'configmaps "x" not found', id="api-status",
        ),
        pytest.param(
            KeyError("x"), 500, "InternalError", "the handler failed: KeyError: 'x'", id="bug"
        ),
    ],
)  # fmt: skip
async def test_exception_determines_the_status(
    raised: Exception, code: int, reason: str, message: str
) -> None:
    async def check(request: AdmissionRequest[Notary]) -> None:
        raise raised

    response = await answer(validating("v", Notary, check), question(notary()))
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"], status["message"]) == (code, reason, message)


async def test_wrapped_api_error_keeps_its_status() -> None:
    async def check(request: AdmissionRequest[Notary]) -> None:
        try:
            raise errors.AlreadyExists.of("configmaps", "", "x")
        except errors.AlreadyExists as error:
            raise Denied("cannot make the template") from error

    response = await answer(validating("v", Notary, check), question(notary()))
    assert response["status"]["code"] == 409
    assert response["status"]["message"] == 'configmaps "x" already exists'


async def test_defaulter_returns_a_patch() -> None:
    async def default(request: AdmissionRequest[Notary]) -> Notary:
        return request.object.replace(spec=NotarySpec(value="v", config_map_name="c"))

    response = await answer(defaulting("d", Notary, default), question(notary(value="v", x=1)))
    assert response["patchType"] == "JSONPatch"
    assert orjson.loads(base64.b64decode(response["patch"])) == [
        {"op": "remove", "path": "/spec/x"},
        {"op": "add", "path": "/spec/configMapName", "value": "c"},
    ]


async def test_defaulter_without_changes_returns_no_patch() -> None:
    async def default(request: AdmissionRequest[Notary]) -> Notary:
        return request.object

    response = await answer(defaulting("d", Notary, default), question(notary()))
    assert response == {"uid": "u1", "allowed": True}


async def test_rejects_the_deletion_of_owned_objects() -> None:
    guard = validating("g", Notary, refuse_deletion_of_owned, operations=(DELETE,))
    owned = notary()
    owned["metadata"]["finalizers"] = ["other/x", "rdd.rancherdesktop.io/owned-by-App"]
    response = await answer(guard, question(None, owned, operation=DELETE))
    assert response["status"]["message"] == (
        'cannot delete "n": owned by App; delete the App resource instead'
    )
    assert (await answer(guard, question(None, notary(), operation=DELETE)))["allowed"] is True


def test_configuration_has_one_webhook_that_fails_closed() -> None:
    async def check(request: AdmissionRequest[Notary]) -> None: ...

    webhook = validating("notary-validator", Notary, check, label_selector={"matchLabels": {}})
    made = webhook.configuration("https://127.0.0.1:1/run", "PEM")
    assert made["kind"] == "ValidatingWebhookConfiguration"
    assert made["metadata"] == {"name": "notary-validator"}
    (only,) = made["webhooks"]
    assert only["name"] == "notary-validator.rdd.rancherdesktop.io"
    assert only["failurePolicy"] == "Fail"
    assert only["objectSelector"] == {"matchLabels": {}}
    assert only["clientConfig"] == {
        "url": "https://127.0.0.1:1/run/validating-notary-validator",
        "caBundle": base64.b64encode(b"PEM").decode(),
    }


def test_webhook_of_the_core_group_needs_a_qualified_name() -> None:
    async def check(request: AdmissionRequest[Any]) -> None: ...

    with pytest.raises(ValueError, match="needs a qualified webhook_name"):
        validating("guard", CONFIG_MAPS, check)


def test_rejects_two_webhooks_with_one_path() -> None:
    async def check(request: AdmissionRequest[Notary]) -> None: ...

    reviewer = Reviewer()
    reviewer.add(validating("v", Notary, check))
    with pytest.raises(ValueError, match="two validating webhooks named v"):
        reviewer.add(validating("v", Notary, check))
