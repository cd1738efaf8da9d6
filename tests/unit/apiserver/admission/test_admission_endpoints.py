# SPDX-License-Identifier: Apache-2.0
"""URLs of webhooks in this process, and endpoints of other webhooks."""

import pytest

from rdd.api.types import Object
from rdd.apiserver.admission.client import WebhookEndpoint
from rdd.apiserver.admission.in_process_webhooks import InProcessEndpoints
from rdd.apiserver.http.request import Request


async def _outer(review: Object, request: Request) -> Object:
    return {}


async def _inner(review: Object, request: Request) -> Object:
    return {}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://127.0.0.1:7/run", _outer),
        ("https://127.0.0.1:7/run/", _outer),
        ("https://127.0.0.1:7/run/mutating-x", _outer),
        ("https://127.0.0.1:7/run/deep/er", _inner),
        ("https://127.0.0.1:7/run/deeper", _outer),
        ("https://127.0.0.1:7/run2", None),
        ("https://127.0.0.1:7/other/run", None),
        ("https://127.0.0.1:8/run", None),
        ("https://127.0.0.1:7", None),
        ("", None),
    ],
)
def test_the_longest_prefix_of_whole_segments_wins(url: str, found: object) -> None:
    endpoints = InProcessEndpoints()
    endpoints.register("https://127.0.0.1:7/run/", _outer)
    endpoints.register("https://127.0.0.1:7/run/deep", _inner)
    assert endpoints.find(url) is found


def test_an_endpoint_can_be_unregistered() -> None:
    endpoints = InProcessEndpoints()
    endpoints.register("https://here/run", _outer)
    endpoints.unregister("https://here/run/")
    endpoints.unregister("https://here/run")
    assert endpoints.find("https://here/run/x") is None


@pytest.mark.parametrize(
    ("config", "endpoint"),
    [
        pytest.param({"url": "https://h/x"}, WebhookEndpoint("https://h/x"), id="url"),
        pytest.param(
            {"url": "https://h", "caBundle": "QQ=="},
            WebhookEndpoint("https://h", "QQ=="),
            id="bundle",
        ),
        pytest.param(
            {"service": {"name": "s", "namespace": "n"}},
            WebhookEndpoint("https://s.n.svc:443/", service="s"),
            id="service",
        ),
        pytest.param(
            {"service": {"name": "s", "namespace": "n", "port": 8443, "path": "/p/q"}},
            WebhookEndpoint("https://s.n.svc:8443/p/q", service="s"),
            id="service-with-path",
        ),
    ],
)
def test_a_client_config_is_a_url_or_a_service(config: Object, endpoint: WebhookEndpoint) -> None:
    assert WebhookEndpoint.of(config) == endpoint
