# SPDX-License-Identifier: Apache-2.0
"""Numbers with more digits than Python converts are bad requests, wherever a request has one."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from tests.http.client import CONFIG_MAPS, CRDS, JSON_PATCH, LEASES, Api, crd

from rdd.api import names

LONG = "9" * 5000
FORMS = {
    "digits": LONG,
    "negative": f"-{LONG}",
    "zeros": "0" * 4000 + "7",
    "superscript": "²³",
    "arabic": "٣" * 5000,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "query",
    [
        *("limit={}", "timeoutSeconds={}&limit=1", "resourceVersion={}", "continue={}"),
        *("watch=1&timeoutSeconds={}", "watch=1&resourceVersion={}", "labelSelector=a>{}"),
        "resourceVersionMatch=Exact&resourceVersion={}&limit=1",
    ],
)
async def test_number_of_a_query(api: Api, query: str, form: str) -> None:
    path = f"{CONFIG_MAPS}?{query.replace('{}', quote(FORMS[form]))}"
    if "timeoutSeconds" in query and form == "zeros":
        return  # 7 seconds
    async with asyncio.timeout(30):
        reply = await api.call("GET", path)
    # Kubernetes answers 500 for a resource version that is no number, with its text.
    assert reply.status in ((200, 400, 410, 500, 504) if "resourceVersion" in query else (200, 400))
    if reply.status == 500:
        assert "strconv.ParseUint" in reply.text


@pytest.mark.parametrize("form", FORMS)
async def test_number_of_a_delete_and_of_headers(api: Api, form: str) -> None:
    text = FORMS[form]
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    reply = await api.call("DELETE", f"{CONFIG_MAPS}/a?gracePeriodSeconds={quote(text)}")
    assert reply.status in (200, 400)
    body = {"metadata": {"name": "b", "resourceVersion": text}}
    assert (await api.call("PUT", f"{CONFIG_MAPS}/b", body)).status in (400, 404, 409, 422, 500)
    if text.isascii():
        headers = {names.OWNER_HEADER: f"a/b/{text}"}
        reply = await api.call("POST", CONFIG_MAPS, {"metadata": {"name": "c"}}, headers=headers)
        assert reply.status in (201, 409, 403, 400)


BODIES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("POST", CONFIG_MAPS, '{"metadata":{"name":"n","generation":LONG}}', {}),
    ("POST", CONFIG_MAPS, "metadata: {name: n, generation: LONG}", {"content_type": "yaml"}),
    ("POST", LEASES, '{"metadata":{"name":"n"},"spec":{"leaseDurationSeconds":LONG}}', {}),
    ("PATCH", f"{CONFIG_MAPS}/x", '{"metadata":{"generation":LONG}}', {}),
    ("PATCH", f"{CONFIG_MAPS}/x", '[{"op":"add","path":"/data/LONG","value":LONG}]',
     {"content_type": JSON_PATCH}),
    ("PATCH", f"{CONFIG_MAPS}/x", '[{"op":"remove","path":"/metadata/finalizers/LONG"}]',
     {"content_type": JSON_PATCH}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BODIES)))
@pytest.mark.parametrize("number", [LONG, f"-{LONG}", f"1e{LONG}", f"0.{LONG}", f"{LONG}.5"])
async def test_number_of_a_body(api: Api, case: int, number: str) -> None:
    method, path, text, options = BODIES[case]
    await api.post(CONFIG_MAPS, {"metadata": {"name": "x"}, "data": {"a": "b"}})
    if options.get("content_type") == "yaml":
        options = {"content_type": "application/yaml"}
    elif method == "PATCH" and not options:
        options = {"content_type": "application/merge-patch+json"}
    reply = await api.call(method, path, text.replace("LONG", number).encode(), **options)
    assert 200 <= reply.status < 500, reply.text[:300]


@pytest.mark.parametrize("path", [f".spec.a[{LONG}]", f".spec.a[0:{LONG}]", f".spec.a[-{LONG}]"])
async def test_number_of_a_column(api: Api, path: str) -> None:
    definition = crd()
    columns = [{"name": "A", "type": "string", "jsonPath": path}]
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    assert (await api.call("POST", CRDS, definition)).status in (201, 422)


@pytest.mark.parametrize("rule", [f"self.a < {LONG}", f"int('{LONG}') > 0", f"'{{{LONG}}}' != ''"])
async def test_number_of_a_rule(api: Api, rule: str) -> None:
    definition = crd()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    assert (await api.call("POST", CRDS, definition)).status in (201, 422)
