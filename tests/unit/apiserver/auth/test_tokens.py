# SPDX-License-Identifier: Apache-2.0
import base64
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.apiserver.auth.identity_world import World

from rdd.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from rdd.api.types import Object
from rdd.apiserver.auth import certificates
from rdd.apiserver.auth.jwt import SigningKey, TokenError, encode
from rdd.apiserver.auth.tokens import ISSUER, TokenIssuer

NOW = 1_800_000_000.7


@cache
def key_pem() -> bytes:
    return certificates.create_authority("key").key


def issuer(**options: Any) -> TokenIssuer:
    return TokenIssuer(key_pem(), now=lambda: NOW, **options)


async def request(
    spec: Object | None = None,
    *,
    world: World | None = None,
    metadata: Object | None = None,
    warnings: list[str] | None = None,
    **options: Any,
) -> Object:
    if world is None:
        world = World()
        world.account("bob")
    return await issuer(**options).token_request(
        {"metadata": metadata or {}, "spec": spec or {}},
        namespace="ns",
        name="bob",
        lister=world,
        warnings=[] if warnings is None else warnings,
    )


async def failure(*args: Any, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await request(*args, **options)
    return caught.value


async def test_response_is_the_completed_request_with_a_token() -> None:
    response = await request()
    token = response["status"].pop("token")
    assert response == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {
            "name": "bob",
            "namespace": "ns",
            "uid": "account-uid",
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"expirationTimestamp": "2027-01-15T09:00:00Z"},
    }
    claims = issuer()._key.verify(token)
    jti = claims.pop("jti")
    assert claims == {
        "aud": [ISSUER],
        "exp": 1_800_003_600,
        "iat": 1_800_000_000,
        "nbf": 1_800_000_000,
        "iss": ISSUER,
        "sub": "system:serviceaccount:ns:bob",
        "kubernetes.io": {
            "namespace": "ns",
            "serviceaccount": {"name": "bob", "uid": "account-uid"},
        },
    }
    verified = issuer().verify(token)
    assert verified.user.to_user_info() == {
        "username": "system:serviceaccount:ns:bob",
        "uid": "account-uid",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={jti}"]},
    }


async def test_requested_audiences_and_lifetime_are_kept() -> None:
    response = await request({"audiences": ["x", "y"], "expirationSeconds": 600})
    assert issuer().verify(response["status"]["token"]).audiences == ("x", "y")
    assert response["status"]["expirationTimestamp"] == "2027-01-15T08:10:00Z"


@pytest.mark.parametrize(
    ("seconds", "detail"),
    [
        pytest.param(599, "may not specify a duration less than 10 minutes", id="short"),
        pytest.param(0, "may not specify a duration less than 10 minutes", id="zero"),
        pytest.param(2**32 + 1, "may not specify a duration larger than 2^32 seconds", id="long"),
    ],
)
async def test_lifetimes_out_of_bounds_are_invalid(seconds: int, detail: str) -> None:
    error = await failure({"expirationSeconds": seconds})
    assert isinstance(error, Invalid)
    assert error.message == (
        'TokenRequest.authentication.k8s.io "" is invalid: '
        f"spec.expirationSeconds: Invalid value: {seconds}: {detail}"
    )


async def test_server_maximum_shortens_with_a_warning() -> None:
    warnings: list[str] = []
    response = await request({"expirationSeconds": 7200}, max_expiration_s=3600, warnings=warnings)
    assert warnings == ["requested expiration of 7200 seconds shortened to 3600 seconds"]
    assert response["spec"]["expirationSeconds"] == 3600
    assert response["status"]["expirationTimestamp"] == "2027-01-15T09:00:00Z"


async def test_account_must_exist() -> None:
    error = await failure(world=World())
    assert isinstance(error, NotFound)
    assert error.message == 'serviceaccounts "bob" not found'


@pytest.mark.parametrize("field", ["name", "namespace"])
async def test_names_in_the_body_must_be_those_of_the_path(field: str) -> None:
    error = await failure(metadata={field: "other"})
    assert error.message == (
        f'TokenRequest.authentication.k8s.io "bob" is invalid: metadata.{field}: '
        f'Invalid value: "other": must match the service account {field} if specified'
    )


async def test_uid_in_the_body_must_be_that_of_the_account() -> None:
    error = await failure(metadata={"uid": "old"})
    assert isinstance(error, Conflict)
    assert error.message == (
        'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "bob": the UID in '
        "the token request (old) does not match the UID of the service account (account-uid)"
    )


def world_with_secret() -> World:
    world = World()
    world.account("bob")
    world.put("secrets", {"metadata": {"name": "s", "namespace": "ns", "uid": "secret-uid"}})
    return world


def bound_to(kind: str, name: str = "s", api_version: str = "v1", uid: str = "") -> Object:
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    return {"boundObjectRef": reference}


async def test_token_bound_to_a_secret_is_invalid_without_it() -> None:
    world = world_with_secret()
    response = await request(bound_to("Secret", uid="secret-uid"), world=world)
    verified = issuer().verify(response["status"]["token"])
    verified.check_objects(world, NOW)
    world.put("secrets", {"metadata": {"name": "s", "namespace": "ns", "uid": "new"}})
    with pytest.raises(TokenError, match=r"secret UID \(new\) does not match"):
        verified.check_objects(world, NOW)
    world.delete("secrets", "ns", "s")
    with pytest.raises(TokenError, match="service account token has been invalidated"):
        verified.check_objects(world, NOW)


@pytest.mark.parametrize(
    ("spec", "error_type", "message"),
    [
        pytest.param(bound_to("Pod"), NotFound, 'pods "s" not found', id="pod"),
        pytest.param(bound_to("Node"), NotFound, 'nodes "s" not found', id="node"),
        pytest.param(bound_to("Secret", "t"), NotFound, 'secrets "t" not found', id="no-secret"),
        pytest.param(
            bound_to("ConfigMap"),
            BadRequest,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
            id="other-kind",
        ),
        pytest.param(
            bound_to("Secret", api_version="apps/v1"),
            BadRequest,
            "cannot bind token to object of type apps/v1, Kind=Secret",
            id="other-group",
        ),
        pytest.param(
            bound_to("Secret", uid="old"),
            Conflict,
            'Operation cannot be fulfilled on Secret "s": the UID in the bound object reference '
            "(old) does not match the UID in record. The object might have been deleted and "
            "then recreated",
            id="recreated",
        ),
    ],
)
async def test_bound_object_must_be_an_existing_secret(
    spec: Object, error_type: type[ApiError], message: str
) -> None:
    error = await failure(spec, world=world_with_secret())
    assert (type(error), error.message) == (error_type, message)


async def test_admission_receives_the_completed_request_and_can_reject() -> None:
    world = World()
    world.account("bob")
    seen: list[Object] = []

    async def refuse(obj: Object) -> None:
        seen.append(obj)
        raise BadRequest("no")

    with pytest.raises(BadRequest):
        await issuer().token_request(
            {}, namespace="ns", name="bob", lister=world, warnings=[], validate=refuse
        )
    assert seen[0]["spec"]["expirationSeconds"] == 3600


def sign(claims: Object, header: Object | None = None) -> str:
    key = SigningKey(key_pem())
    token = key.sign(claims)
    if header is None:
        return token
    _, body, signature = token.split(".")
    return ".".join([encode(json.dumps(header).encode()), body, signature])


GOOD = {
    "iss": ISSUER,
    "exp": NOW + 10,
    "jti": "j",
    "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "bob", "uid": "u"}},
}


@pytest.mark.parametrize(
    ("token", "error"),
    [
        pytest.param(sign(GOOD, {"alg": "none"}), "cryptographic primitive", id="alg-none"),
        pytest.param(sign(GOOD, {"alg": "HS256"}), "cryptographic primitive", id="alg-hmac"),
        pytest.param(sign(GOOD, {"alg": "ES256", "kid": "x"}), "no keys found", id="other-key"),
        pytest.param(sign(GOOD, {"alg": "ES256"}), "cryptographic primitive", id="resigned"),
        pytest.param(sign({**GOOD, "iss": "x"}), 'token issuer "x" is invalid', id="issuer"),
        pytest.param(sign({"iss": ISSUER}), "could not be validated", id="no-claims"),
        pytest.param("a.b.c", "malformed", id="no-token"),
        pytest.param("", "malformed", id="empty"),
    ],
)
def test_rejects_malformed_tokens(token: str, error: str) -> None:
    with pytest.raises(TokenError, match=error):
        issuer().verify(token)


SIGNED = sign(GOOD)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(SIGNED) - 1), st.sampled_from("AbZ09-_.é"))
def test_changed_token_is_never_accepted_as_another(at: int, char: str) -> None:
    changed = SIGNED[:at] + char + SIGNED[at + 1 :]
    try:
        claims = SigningKey(key_pem()).verify(changed)
    except TokenError:
        return
    assert claims == json.loads(json.dumps(GOOD))


def test_rejects_tokens_of_another_key() -> None:
    other = TokenIssuer(certificates.create_authority("other").key)
    with pytest.raises(TokenError, match="no keys found"):
        other.verify(sign(GOOD))


def test_times_are_checked_with_a_minute_of_leeway() -> None:
    verified = issuer().verify(sign({**GOOD, "nbf": NOW}))
    verified.check_time(NOW - 59)
    verified.check_time(NOW + 69)
    with pytest.raises(TokenError, match="not valid yet"):
        verified.check_time(NOW - 61)
    with pytest.raises(TokenError, match="has expired"):
        verified.check_time(NOW + 71)


def test_discovery_document_points_to_the_key_set() -> None:
    response = issuer().discovery("https://127.0.0.1:6443/openid/v1/jwks")
    assert json.loads(response.body) == {
        "issuer": ISSUER,
        "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    assert response.content_type == "application/json"
    assert response.headers == [("Cache-Control", "public, max-age=3600")]


def test_key_set_verifies_a_token() -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    response = issuer().key_set()
    assert response.content_type == "application/jwk-set+json"
    (key,) = json.loads(response.body)["keys"]
    assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("EC", "P-256", "ES256", "sig")

    def number(text: str) -> int:
        return int.from_bytes(base64.urlsafe_b64decode(text + "=="), "big")

    signed, _, signature = sign(GOOD).rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    encoded = utils.encode_dss_signature(
        int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    )
    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1())
    public.public_key().verify(encoded, signed.encode(), ec.ECDSA(hashes.SHA256()))
    header = json.loads(base64.urlsafe_b64decode(signed.split(".")[0] + "=="))
    assert header == {"alg": "ES256", "kid": key["kid"]}
