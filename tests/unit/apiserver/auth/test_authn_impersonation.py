# SPDX-License-Identifier: Apache-2.0
from typing import Any, cast

import pytest
from multidict import CIMultiDict
from tests.unit.apiserver.auth.identity_world import World, rule, user

from rdd.api.errors import ApiError, BadRequest, Forbidden
from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.auth.impersonation import Impersonator
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.http.request import Headers, User

ADMIN = User("admin", ("system:masters",))
ANN = User("ann", ("system:authenticated",))
AUTHENTICATION = "authentication.k8s.io"


def headers(*pairs: tuple[str, str]) -> Headers:
    return cast(Headers, CIMultiDict([("User-Agent", "test"), ("If-Match", "x"), *pairs]))


def listing(who: User) -> AuthorizationAttributes:
    return AuthorizationAttributes(who, "list", resource="configmaps", namespace="ns")


def become(
    *pairs: tuple[str, str], who: User = ADMIN, world: World | None = None
) -> dict[str, Any]:
    impersonator = Impersonator(RbacAuthorizer(world or World()))
    return impersonator.user(headers(*pairs), listing(who)).to_user_info()


def denial(*pairs: tuple[str, str], world: World | None = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        become(*pairs, who=ANN, world=world)
    return caught.value


def granted(*rules: dict[str, Any]) -> World:
    world = World()
    world.grant("r", user("ann"), *rules)
    return world


def test_requests_without_impersonation_headers_keep_their_user() -> None:
    impersonator = Impersonator(RbacAuthorizer(World()))
    assert impersonator.user(headers(), listing(ANN)) is ANN
    in_process = cast(Headers, {"Accept": "x"})
    assert impersonator.user(in_process, listing(ANN)) is ANN


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param(
            [("Impersonate-User", "bob")],
            {"username": "bob", "groups": ["system:authenticated"]},
            id="user",
        ),
        pytest.param(
            [("impersonate-user", "bob"), ("impersonate-group", "devs")],
            {"username": "bob", "groups": ["devs", "system:authenticated"]},
            id="lower-case-headers",
        ),
        pytest.param(
            [
                ("Impersonate-User", "bob"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Group", "system:authenticated"),
                ("Impersonate-Group", "a"),
            ],
            {"username": "bob", "groups": ["b", "system:authenticated", "a"]},
            id="groups-in-order",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:unauthenticated")],
            {"username": "bob", "groups": ["system:unauthenticated"]},
            id="unauthenticated",
        ),
        pytest.param(
            [("Impersonate-User", "system:anonymous")],
            {"username": "system:anonymous", "groups": ["system:unauthenticated"]},
            id="anonymous",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:ns:bob")],
            {
                "username": "system:serviceaccount:ns:bob",
                "groups": [
                    "system:serviceaccounts",
                    "system:serviceaccounts:ns",
                    "system:authenticated",
                ],
            },
            id="account",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:ns:bob"), ("Impersonate-Group", "g")],
            {"username": "system:serviceaccount:ns:bob", "groups": ["g", "system:authenticated"]},
            id="account-with-groups",
        ),
        pytest.param(
            [("Impersonate-User", "system:node:n1")],
            {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]},
            id="node",
        ),
        pytest.param(
            [
                ("Impersonate-User", "bob"),
                ("Impersonate-Uid", "u1"),
                ("Impersonate-Extra-Scopes", "view"),
                ("Impersonate-Extra-Scopes", "edit"),
                ("Impersonate-Extra-Acme.com%2Fproject", "p"),
            ],
            {
                "username": "bob",
                "uid": "u1",
                "groups": ["system:authenticated"],
                "extra": {"scopes": ["view", "edit"], "acme.com/project": ["p"]},
            },
            id="uid-and-extra",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
            {"username": "bob", "groups": ["system:masters", "system:authenticated"]},
            id="masters-by-the-legacy-mode",
        ),
    ],
)
def test_administrator_impersonates_the_user_of_the_headers(
    pairs: list[tuple[str, str]], expected: dict[str, Any]
) -> None:
    assert become(*pairs) == expected


@pytest.mark.parametrize(
    ("pair", "shown"),
    [
        pytest.param(
            ("Impersonate-Group", "devs"),
            'UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)',
            id="group",
        ),
        pytest.param(
            ("Impersonate-Uid", "u"),
            'UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)',
            id="uid",
        ),
        pytest.param(
            ("Impersonate-Extra-X", "y"),
            'UID:"", Groups:[]string(nil), Extra:map[string][]string{"x":[]string{"y"}}',
            id="extra",
        ),
    ],
)
def test_headers_without_a_user_are_a_bad_request(pair: tuple[str, str], shown: str) -> None:
    error = denial(pair)
    assert isinstance(error, BadRequest)
    what = f'&user.DefaultInfo{{Name:"", {shown}}}'
    assert error.message == f"requested {what} without impersonating a user name"


def test_denial_is_that_of_the_constrained_mode() -> None:
    error = denial(("Impersonate-User", "bob"))
    assert isinstance(error, Forbidden)
    assert error.message == (
        'configmaps is forbidden: User "ann" cannot impersonate-on:user-info:list resource '
        '"configmaps" in API group "" in the namespace "ns"'
    )
    error = denial(("Impersonate-User", "system:serviceaccount:ns:bob"))
    assert "cannot impersonate-on:serviceaccount:list resource" in error.message


def test_groups_of_an_account_leave_only_the_legacy_mode() -> None:
    error = denial(("Impersonate-User", "system:serviceaccount:ns:bob"), ("Impersonate-Group", "g"))
    assert error.message == (
        'serviceaccounts "bob" is forbidden: User "ann" cannot impersonate resource '
        '"serviceaccounts" in API group "" in the namespace "ns"'
    )


@pytest.mark.parametrize(
    ("pairs", "missing"),
    [
        pytest.param([], None, id="user"),
        pytest.param([("Impersonate-Group", "devs")], None, id="group"),
        pytest.param([("Impersonate-Uid", "u")], None, id="uid"),
        pytest.param([("Impersonate-Extra-Scopes", "view")], None, id="extra"),
        pytest.param([("Impersonate-Group", "ops")], "groups", id="other-group"),
        pytest.param([("Impersonate-Uid", "v")], "uids", id="other-uid"),
        pytest.param([("Impersonate-Extra-Scopes", "edit")], "userextras", id="other-extra"),
        pytest.param([("Impersonate-Extra-Other", "view")], "userextras", id="other-key"),
    ],
)
def test_legacy_mode_needs_every_part_to_be_allowed(
    pairs: list[tuple[str, str]], missing: str | None
) -> None:
    world = granted(
        rule("impersonate", "users", resourceNames=["bob"]),
        rule("impersonate", "groups", resourceNames=["devs"]),
        rule("impersonate", "uids", AUTHENTICATION, resourceNames=["u"]),
        rule("impersonate", "userextras/scopes", AUTHENTICATION, resourceNames=["view"]),
    )
    pairs = [("Impersonate-User", "bob"), *pairs]
    if missing is None:
        assert become(*pairs, who=ANN, world=world)["username"] == "bob"
    else:
        assert isinstance(denial(*pairs, world=world), Forbidden)


def test_constrained_mode_needs_permission_for_user_and_request() -> None:
    as_bob = rule("impersonate:user-info", "users", AUTHENTICATION, resourceNames=["bob"])
    on_list = rule("impersonate-on:user-info:list", "configmaps")
    pair = ("Impersonate-User", "bob")
    assert become(pair, who=ANN, world=granted(as_bob, on_list))["username"] == "bob"
    error = denial(pair, world=granted(on_list))
    assert error.message == (
        'users.authentication.k8s.io "bob" is forbidden: User "ann" cannot impersonate:user-info '
        'resource "users" in API group "authentication.k8s.io" at the cluster scope'
    )
    assert "cannot impersonate-on:user-info:list" in denial(pair, world=granted(as_bob)).message


CONSTRAINED = (
    rule("impersonate:user-info", "users groups userextras/*", AUTHENTICATION),
    rule("impersonate-on:user-info:list", "configmaps"),
)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        pytest.param(
            [("Impersonate-Group", "system:masters")],
            'groups.authentication.k8s.io "system:masters" is forbidden: User "ann" cannot '
            'impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the '
            "cluster scope: impersonating the system:masters group is not allowed",
            id="masters",
        ),
        pytest.param(
            [("Impersonate-Group", "")],
            'groups.authentication.k8s.io is forbidden: User "ann" cannot impersonate:user-info '
            'resource "groups" in API group "authentication.k8s.io" at the cluster scope: '
            "impersonating the empty string group is not allowed",
            id="empty-group",
        ),
        pytest.param(
            [("Impersonate-Extra-Scopes", "x")],
            'userextras.authentication.k8s.io is forbidden: User "ann" cannot '
            'impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at '
            "the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: "
            'Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")',
            id="extra-without-domain",
        ),
        pytest.param(
            [("Impersonate-Extra-Acme.io%2Fa", "")],
            'userextras.authentication.k8s.io is forbidden: User "ann" cannot '
            'impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at '
            "the cluster scope: impersonating the empty string value in extra is not allowed",
            id="empty-extra",
        ),
    ],
)
def test_constrained_mode_never_grants_these(pairs: list[tuple[str, str]], message: str) -> None:
    error = denial(("Impersonate-User", "bob"), *pairs, world=granted(*CONSTRAINED))
    assert error.message == message


def test_many_groups_are_allowed_by_one_permission_for_all() -> None:
    groups = [("Impersonate-Group", g) for g in "abcd"]
    world = granted(
        rule("impersonate:user-info", "users", AUTHENTICATION),
        rule("impersonate:user-info", "groups", AUTHENTICATION, resourceNames=["*"]),
        rule("impersonate-on:user-info:list", "configmaps"),
    )
    pairs = [("Impersonate-User", "bob"), *groups]
    assert become(*pairs, who=ANN, world=world)["groups"][:4] == ["a", "b", "c", "d"]
    assert isinstance(denial(*pairs[:-1], world=world), Forbidden)


def test_denial_after_legacy_success_is_worded_by_the_legacy_mode() -> None:
    world = granted(rule("impersonate", "users", resourceNames=["bob"]))
    impersonator = Impersonator(RbacAuthorizer(world))
    impersonator.user(headers(("Impersonate-User", "bob")), listing(ANN))
    with pytest.raises(Forbidden) as caught:
        impersonator.user(headers(("Impersonate-User", "eve")), listing(ANN))
    assert caught.value.message == (
        'users "eve" is forbidden: User "ann" cannot impersonate resource "users" '
        'in API group "" at the cluster scope'
    )


@pytest.mark.parametrize(
    "name", ["system:serviceaccount:ns", "system:serviceaccount:N:a", "system:serviceaccount:a:b:c"]
)
def test_malformed_account_names_are_plain_users(name: str) -> None:
    world = granted(rule("impersonate", "users"))
    info = become(("Impersonate-User", name), who=ANN, world=world)
    assert info == {"username": name, "groups": ["system:authenticated"]}
