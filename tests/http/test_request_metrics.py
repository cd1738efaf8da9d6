# SPDX-License-Identifier: Apache-2.0
"""Labels of request metrics: only what is served, so that no client can add one."""

import asyncio

from tests.http.client import CRDS, WIDGETS, Api, crd

from rdd.apiserver.http.request import parse_path


def observe(api: Api, method: str, path: str, code: int) -> None:
    """Count a request as the listener does."""
    info = parse_path(method, path)
    api.server.running.metrics.observe(info.verb, info.group, info.resource, code, 0.001)


def labels(api: Api) -> set[tuple[str | int, ...]]:
    return set(api.server.running.metrics._requests.samples)


async def test_paths_and_methods_of_clients_do_not_become_labels(api: Api) -> None:
    for i in range(1000):
        observe(api, "GET", f"/apis/g{i}.example.com/v1/things", 404)
        observe(api, "GET", f"/apis/apps/v{i}/namespaces/n{i}/things{i}", 404)
        observe(api, "GET", f"/api/v1/namespaces/default/things{i}", 404)
        observe(api, "GET", f"/x{i}", 404)
        observe(api, f"VERB{i}", "/api/v1/configmaps", 405)
        observe(api, f"VERB{i}", f"/apis/g{i}/v1/x", 405)
    assert labels(api) == {
        ("list", "", "other", 404),
        ("get", "", "", 404),
        ("other", "", "configmaps", 405),
        ("other", "", "other", 405),
    }
    text = api.server.running.metrics.render()
    assert "things" not in text and "verb1" not in text
    assert len(text) < 10_000


async def test_requests_to_served_resources_are_counted_by_resource(api: Api) -> None:
    await api.install(crd())
    observe(api, "GET", "/api/v1/configmaps", 200)
    observe(api, "GET", "/api/v1/configmaps", 200)
    observe(api, "GET", WIDGETS, 200)
    samples = api.server.running.metrics._requests.samples
    assert samples[("list", "", "configmaps", 200)] == 2
    assert samples[("list", "shop.example.com", "widgets", 200)] == 1


async def test_samples_of_a_resource_end_with_its_definition(api: Api) -> None:
    await api.install(crd())
    observe(api, "GET", WIDGETS, 200)
    observe(api, "GET", "/api/v1/configmaps", 200)
    await api.delete(f"{CRDS}/widgets.shop.example.com")
    wanted = {("list", "", "configmaps", 200)}
    async with asyncio.timeout(60):
        while labels(api) != wanted:  # noqa: ASYNC110  (a controller of the server removes it)
            await asyncio.sleep(0.01)
