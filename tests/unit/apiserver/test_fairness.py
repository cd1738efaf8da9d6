# SPDX-License-Identifier: Apache-2.0
"""Places for requests in flight: shares of users, reserves, and that none is lost."""

import random

import pytest

from rdd.api import errors
from rdd.apiserver.admission.exemption import DAEMON
from rdd.apiserver.fairness import (
    FOR_ADMINISTRATORS,
    FOR_REPAIRS,
    MAX_READING,
    MAX_WRITING,
    InFlight,
    Place,
)
from rdd.apiserver.http.request import SYSTEM, Request, User

SECRETS = "/api/v1/namespaces/default/secrets"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
ADMIN = User("admin", ("system:masters",))


def request(user: User | str, method: str = "POST", path: str = SECRETS) -> Request:
    return Request(method, path, headers={}, user=User(user) if isinstance(user, str) else user)


def fill(limits: InFlight, sample: Request) -> list[Place]:
    """Take places until there is none."""
    places = []
    while True:
        try:
            places.append(limits.enter(sample))
        except errors.TooManyRequests:
            return places


def test_user_who_comes_later_finds_places() -> None:
    limits = InFlight()
    counts = [len(fill(limits, request(f"user-{n}"))) for n in range(6)]
    assert counts[:3] == [150, 38, 9]
    assert all(counts[:4]), counts
    assert limits.writing <= MAX_WRITING


def test_shares_grow_again_when_others_leave() -> None:
    limits = InFlight()
    first = fill(limits, request("a"))
    second = fill(limits, request("b"))
    for place in first:
        limits.leave(place)
    assert len(second) + len(fill(limits, request("b"))) == 150


def test_reading_and_writing_do_not_share() -> None:
    limits = InFlight()
    fill(limits, request("a"))
    assert len(fill(limits, request("a", "GET"))) == MAX_READING * 3 // 4


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_administrators_have_a_reserve(method: str) -> None:
    limits = InFlight()
    for n in range(20):
        fill(limits, request(f"user-{n}", method))
    assert len(fill(limits, request(ADMIN, method))) == FOR_ADMINISTRATORS


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("DELETE", f"{WEBHOOKS}/w", id="delete a webhook"),
        pytest.param("DELETE", WEBHOOKS, id="delete all webhooks"),
        pytest.param("PATCH", f"{WEBHOOKS}/w", id="patch a webhook"),
        pytest.param(
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p",
            id="delete a policy",
        ),
        pytest.param("GET", f"{WEBHOOKS}/w", id="read a webhook"),
        pytest.param("GET", "/apis", id="discovery"),
        pytest.param("GET", "/readyz", id="health"),
    ],
)
@pytest.mark.parametrize("user", [ADMIN, User("someone")], ids=["administrator", "user"])
def test_repairs_find_a_place_when_the_same_user_has_none_left(
    user: User, method: str, path: str
) -> None:
    limits = InFlight()
    fill(limits, request(user, method))
    assert len(fill(limits, request(user, method, path))) == FOR_REPAIRS


@pytest.mark.parametrize("user", [DAEMON, SYSTEM], ids=["controllers", "server"])
def test_daemon_has_places_of_its_own(user: User) -> None:
    limits = InFlight()
    for n in range(20):
        fill(limits, request(f"user-{n}"))
    assert len(fill(limits, request(user))) == MAX_WRITING
    assert fill(limits, request(user)) == []


def test_client_with_the_name_of_the_daemon_shares() -> None:
    limits = InFlight()
    impostor = request("x")
    impostor.user, impostor.is_trusted = DAEMON, False
    assert len(fill(limits, impostor)) == 150 + FOR_ADMINISTRATORS


def test_every_place_is_given_back() -> None:
    limits, order = InFlight(reading=9, writing=5, administrators=2, repairs=1), random.Random(1)
    users = [ADMIN, DAEMON, *(User(f"user-{n}") for n in range(4))]
    held: list[Place] = []
    for _ in range(3_000):
        if held and order.random() < 0.5:
            limits.leave(held.pop(order.randrange(len(held))))
            continue
        method, path = order.choice(["GET", "POST"]), order.choice([SECRETS, WEBHOOKS])
        try:
            held.append(limits.enter(request(order.choice(users), method, path)))
        except errors.TooManyRequests:
            pass
        assert limits.reading <= 9 + 2 + 1 + 9
        assert limits.writing <= 5 + 2 + 1 + 5
    for place in held:
        limits.leave(place)
    assert (limits.reading, limits.writing) == (0, 0)
    assert len(fill(limits, request("new"))) == 4
