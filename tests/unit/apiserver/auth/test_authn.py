# SPDX-License-Identifier: Apache-2.0
import hashlib
from functools import cache
from typing import Any, cast

import pytest
from multidict import CIMultiDict
from tests.unit.apiserver.auth.identity_world import World

from rdd.api.errors import Unauthorized
from rdd.apiserver.auth import certificates, x509
from rdd.apiserver.auth.authentication import EXTRA_SPACE_WARNING, Authenticator
from rdd.apiserver.auth.jwt import SigningKey, TokenError
from rdd.apiserver.auth.tokens import ISSUER, TokenIssuer
from rdd.apiserver.http.request import ANONYMOUS, Headers, Request, User

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> float:
        return self.time


@cache
def key_pem() -> bytes:
    return certificates.create_authority("key").key


@cache
def client_authority() -> certificates.KeyPair:
    return certificates.create_authority("clients", now=lambda: NOW)


def authenticator(
    world: World | None = None, *, clock: Clock | None = None, **options: Any
) -> Authenticator:
    clock = clock or Clock()
    return Authenticator(
        {"admin-token": User("system-admin", ("system:masters",)), "user-token": User("user")},
        issuer=TokenIssuer(key_pem(), now=clock),
        lister=world or World(),
        now=clock,
        **options,
    )


def request(authorization: str | None = None, certificate: bytes | None = None) -> Request:
    headers: CIMultiDict[str] = CIMultiDict()
    if authorization is not None:
        headers["authorization"] = authorization
    return Request("GET", "/api", headers=cast(Headers, headers), peer_certificate=certificate)


async def issue(world: World, **spec: Any) -> str:
    response = await TokenIssuer(key_pem(), now=lambda: NOW).token_request(
        {"spec": spec}, namespace="ns", name="bob", lister=world, warnings=[]
    )
    return str(response["status"]["token"])


@pytest.mark.parametrize(
    ("header", "name", "groups"),
    [
        pytest.param(
            "Bearer admin-token",
            "system-admin",
            ("system:masters", "system:authenticated"),
            id="admin",
        ),
        pytest.param("Bearer user-token", "user", ("system:authenticated",), id="user"),
        pytest.param("bearer user-token", "user", ("system:authenticated",), id="lower-case"),
        pytest.param(" Bearer user-token ", "user", ("system:authenticated",), id="spaces-around"),
        pytest.param("Bearer user-token x", "user", ("system:authenticated",), id="more-behind"),
    ],
)
def test_static_tokens_name_their_user(header: str, name: str, groups: tuple[str, ...]) -> None:
    who = authenticator().authenticate(request(header))
    assert (who.name, who.groups) == (name, groups)


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic dXNlcjp4", "user-token", "Bearer  user-token"],
)
def test_requests_without_a_bearer_token_are_anonymous(header: str | None) -> None:
    assert authenticator().authenticate(request(header)) is ANONYMOUS


def test_warns_about_space_before_the_token() -> None:
    sent = request("Bearer  user-token")
    authenticator().authenticate(sent)
    assert sent.warnings == [EXTRA_SPACE_WARNING]


@pytest.mark.parametrize("token", ["x", "admin-token2", "a.b.c", "admin-toke", "é", "a.e30.c"])
def test_rejects_invalid_tokens(token: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        authenticator().authenticate(request(f"Bearer {token}"))
    status = caught.value.to_status()
    assert (status["code"], status["message"]) == (401, "Unauthorized")
    assert "details" not in status


def test_anonymous_requests_can_be_switched_off() -> None:
    with pytest.raises(Unauthorized):
        authenticator(allow_anonymous=False).authenticate(request())


async def test_service_account_token_names_account_groups_and_credential() -> None:
    world = World()
    world.account("bob")
    token = await issue(world)
    who = authenticator(world).authenticate(request(f"Bearer {token}"))
    jti = SigningKey(key_pem()).verify(token)["jti"]
    assert who.to_user_info() == {
        "username": "system:serviceaccount:ns:bob",
        "uid": "account-uid",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={jti}"]},
    }


@pytest.mark.parametrize("change", ["deleted", "recreated", "terminating"])
async def test_token_stops_working_with_its_account(change: str) -> None:
    world = World()
    obj = world.account("bob")
    sent = request(f"Bearer {await issue(world)}")
    authn = authenticator(world)
    assert authn.authenticate(sent).uid == "account-uid"
    if change == "deleted":
        world.delete("serviceaccounts", "ns", "bob")
    elif change == "recreated":
        world.account("bob", uid="new")
    else:
        metadata = {**obj["metadata"], "deletionTimestamp": "2027-01-15T07:58:00Z"}
        world.put("serviceaccounts", {**obj, "metadata": metadata})
    with pytest.raises(Unauthorized):
        authn.authenticate(sent)


async def test_cached_token_expires() -> None:
    world, clock = World(), Clock()
    world.account("bob")
    sent = request(f"Bearer {await issue(world, expirationSeconds=600)}")
    authn = authenticator(world, clock=clock)
    authn.authenticate(sent)
    clock.time += 600 + 59
    authn.authenticate(sent)
    clock.time += 2
    with pytest.raises(Unauthorized):
        authn.authenticate(sent)


async def test_cached_token_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.account("bob")
    sent = request(f"Bearer {await issue(world)}")
    authn = authenticator(world)
    first = authn.authenticate(sent)
    monkeypatch.delattr(SigningKey, "verify")
    world.account("other")
    assert authn.authenticate(sent) is first


async def test_rejects_token_of_another_audience() -> None:
    world = World()
    world.account("bob")
    token = await issue(world, audiences=["other"])
    authn = authenticator(world)
    with pytest.raises(Unauthorized):
        authn.authenticate(request(f"Bearer {token}"))
    assert authn.authenticate_token(token, ["x", "other"]).audiences == ("other",)
    with pytest.raises(TokenError) as caught:
        authn.authenticate_token(token)
    assert str(caught.value) == (
        '[invalid bearer token, token audiences ["other"] is invalid '
        f'for the target audiences ["{ISSUER}"]]'
    )


async def test_token_cache_is_bounded() -> None:
    world = World()
    world.account("bob")
    authn = authenticator(world)
    key = SigningKey(key_pem())
    claims = key.verify(await issue(world))
    for i in range(1100):
        authn.authenticate_token(key.sign({**claims, "jti": str(i)}))
    assert len(authn._cached_tokens) <= 1024


def der_of(*args: Any, **options: Any) -> bytes:
    pair = certificates.issue_client(client_authority(), *args, now=lambda: NOW, **options)
    return next(x509.pem_blocks(pair.certificate))


def test_client_certificate_names_user_and_groups() -> None:
    der = der_of("ann", groups=["devs", "ops"], uid="u-1")
    who = authenticator().authenticate(request(certificate=der))
    fingerprint = hashlib.sha256(der).hexdigest()
    assert who.to_user_info() == {
        "username": "ann",
        "uid": "u-1",
        "groups": ["devs", "ops", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"X509SHA256={fingerprint}"]},
    }


def test_client_certificate_wins_over_a_token() -> None:
    sent = request("Bearer wrong", der_of("ann"))
    assert authenticator().authenticate(sent).name == "ann"


def test_rejects_certificate_that_expires_on_an_open_connection() -> None:
    clock = Clock()
    sent = request(certificate=der_of("ann", days=1))
    authn = authenticator(clock=clock)
    authn.authenticate(sent)
    clock.time += 86401
    with pytest.raises(Unauthorized):
        authn.authenticate(sent)


def test_rejects_damaged_certificate() -> None:
    with pytest.raises(Unauthorized):
        authenticator().authenticate(request(certificate=b"\x30\x03abc"))
