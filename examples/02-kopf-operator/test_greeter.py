# SPDX-License-Identifier: Apache-2.0
"""The operator against a real API server: no cluster, no download, no mock."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kopf.testing import KopfRunner

from rdd.testing import LiveServer

GREETER = Path(__file__).with_name("greeter.py")
GREETINGS = "/apis/demo.example.com/v1/namespaces/default/greetings"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def greeting(name: str, text: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "demo.example.com/v1",
        "kind": "Greeting",
        "metadata": {"name": name},
        "spec": {"text": text, **spec},
    }


@pytest.fixture
def operator(apiserver_kubeconfig: Path) -> Iterator[KopfRunner]:
    """The operator, running in a thread with the kubeconfig of the server."""
    with KopfRunner(["run", "--standalone", "--namespace", "default", str(GREETER)]) as runner:
        yield runner
    assert runner.exit_code == 0


@pytest.mark.usefixtures("operator")
def test_a_greeting_is_shown_changed_and_taken_down(apiserver: LiveServer) -> None:
    apiserver.create(greeting("hello", "Hello, world"))
    shown = apiserver.until(f"{CONFIG_MAPS}/hello", lambda obj: obj is not None)
    assert shown is not None and shown["data"] == {"text": "Hello, world"}

    louder = {"spec": {"loud": True}}
    media = "application/merge-patch+json"
    apiserver.request("PATCH", f"{GREETINGS}/hello", louder, content_type=media)
    apiserver.until(
        f"{GREETINGS}/hello",
        lambda obj: bool(obj and obj.get("status") == {"shown": "HELLO, WORLD"}),
    )

    apiserver.request("DELETE", f"{GREETINGS}/hello")
    apiserver.until(f"{CONFIG_MAPS}/hello", lambda obj: obj is None)  # garbage-collected


@pytest.mark.usefixtures("operator")
def test_a_busy_server_delays_a_greeting_but_does_not_lose_it(apiserver: LiveServer) -> None:
    fault = apiserver.faults.error(503, 2, verb="create", resource="configmaps")
    apiserver.create(greeting("patient", "Good things come"))
    apiserver.until(f"{CONFIG_MAPS}/patient", lambda obj: obj is not None)
    assert fault.hits == 2


@pytest.mark.usefixtures("operator")
def test_a_lost_answer_does_not_make_two(apiserver: LiveServer) -> None:
    apiserver.faults.lose_answer(verb="create", resource="configmaps")
    apiserver.create(greeting("once", "Only once"))
    apiserver.until(
        f"{GREETINGS}/once", lambda obj: bool(obj and obj.get("status", {}).get("shown"))
    )


def test_the_schema_is_enforced(apiserver: LiveServer) -> None:
    reply = apiserver.request("POST", GREETINGS, greeting("long", "x" * 41))
    assert reply.status == 422
    assert "spec.text: Too long: may not be more than 40 bytes" in reply.json()["message"]
