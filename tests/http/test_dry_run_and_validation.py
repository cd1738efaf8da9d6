# SPDX-License-Identifier: Apache-2.0
"""dryRun, fieldValidation and fieldManager on every verb that has them."""

from typing import Any

import pytest
from tests.http.client import (
    ACCOUNTS,
    APPLY,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    SECRETS,
    STRATEGIC,
    WIDGETS,
    Api,
    account,
    config_map,
    crd,
    secret,
    widget,
)

from rdd.api.types import Object

X = f"{CONFIG_MAPS}/x"
DRY = {"dryRun": "All"}


# -- dry run


async def test_dry_run_create_responds_like_create_and_stores_nothing(api: Api) -> None:
    revision = api.server.store.revision
    made = await api.post(CONFIG_MAPS, config_map("x", {"k": "v"}), query=DRY, expect=201)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    named = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "g-"}}, query=DRY)
    assert named["metadata"]["name"].startswith("g-")
    assert api.server.store.revision == revision


async def test_dry_run_update_returns_the_new_object_and_stores_nothing(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x", {"k": "v"}))
    shown = await api.put(X, config_map("x", {"k": "w"}), query=DRY)
    assert shown["data"] == {"k": "w"}
    assert await api.get(X) == made
    stale = config_map("x", {"k": "w"}, resourceVersion="1")
    await api.refused(409, "PUT", X, stale, query=DRY)


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(MERGE, {"data": {"k": None}}, id="merge"),
        pytest.param(STRATEGIC, {"data": {"k": None}}, id="strategic"),
        pytest.param(JSON_PATCH, [{"op": "remove", "path": "/data/k"}], id="json"),
    ],
)
async def test_dry_run_patch_returns_the_new_object_and_stores_nothing(
    kind: str, patch: Any, api: Api
) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x", {"k": "v"}))
    assert "data" not in await api.patch(X, patch, kind, query=DRY)
    assert await api.get(X) == made


async def test_dry_run_delete_deletes_nothing(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x"))
    for body, query in ((None, DRY), ({"dryRun": ["All"]}, {}), ({"dryRun": ["All"]}, DRY)):
        gone = await api.delete(X, body, query=query)
        assert (gone["status"], gone["details"]["uid"]) == ("Success", made["metadata"]["uid"])
        assert await api.get(X) == made
    held = await api.post(CONFIG_MAPS, config_map("y", finalizers=["shop.example.com/f"]))
    shown = await api.delete(f"{CONFIG_MAPS}/y", query=DRY)
    assert shown["metadata"]["deletionTimestamp"]
    assert await api.get(f"{CONFIG_MAPS}/y") == held
    listed = await api.delete(CONFIG_MAPS, query=DRY)
    assert [o["metadata"]["name"] for o in listed["items"]] == ["x", "y"]
    assert await api.names(CONFIG_MAPS) == ["x", "y"]


async def test_dry_run_create_of_an_existing_name_is_rejected(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(409, "POST", CONFIG_MAPS, config_map("x"), query=DRY)
    assert status["reason"] == "AlreadyExists"


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        pytest.param("dryRun=Most", '["Most"]', id="word"),
        pytest.param("dryRun=", '[""]', id="empty"),
        pytest.param("dryRun=All&dryRun=else", '["All","else"]', id="one of two"),
    ],
)
async def test_other_values_of_dry_run_are_rejected_for_every_verb(
    query: str, shown: str, api: Api
) -> None:
    for method, kind, path, body, media in (
        ("POST", "CreateOptions", CONFIG_MAPS, config_map("x"), ""),
        ("PUT", "UpdateOptions", X, config_map("x"), ""),
        ("PATCH", "PatchOptions", X, {}, MERGE),
        ("DELETE", "DeleteOptions", X, None, ""),
        ("DELETE", "DeleteOptions", CONFIG_MAPS, None, ""),
    ):
        status = await api.refused(422, method, f"{path}?{query}", body, content_type=media)
        assert status["message"] == (
            f'{kind}.meta.k8s.io "" is invalid: dryRun: Unsupported value: {shown}: '
            'supported values: "All"'
        )


async def test_dry_run_can_be_repeated(api: Api) -> None:
    path = f"{CONFIG_MAPS}?dryRun=All&dryRun=All"
    await api.post(path, config_map("x"), expect=201)
    assert await api.names(CONFIG_MAPS) == []


async def test_tokens_and_reviews_accept_dry_run(api: Api) -> None:
    await api.post(ACCOUNTS, account("x"))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = await api.post(f"{ACCOUNTS}/x/token", request, query=DRY, expect=201)
    assert token["spec"]["expirationSeconds"] == 3600
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await api.post(path, review, query=DRY))["status"]["allowed"] is True


# -- field validation

ODD = {**config_map("x", {"k": "v"}, oddity=1), "extra": {"a": 1}, "more": 2}
PROBLEMS = ['unknown field "extra"', 'unknown field "metadata.oddity"', 'unknown field "more"']


async def outcome(
    api: Api, method: str, path: str, body: Any, mode: str, media: str = ""
) -> tuple[int, list[str], str]:
    """Return status, sorted warnings and message of a request in a validation mode."""
    query = {"fieldValidation": mode} if mode else {}
    reply = await api.call(method, path, body, query=query, content_type=media)
    return reply.status, sorted(reply.warnings), reply.json().get("message", "")


@pytest.mark.parametrize("mode", ["", "Warn", "Ignore", "Strict"])
async def test_unknown_fields_are_errors_warnings_or_dropped(mode: str, api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    new = {**ODD, "metadata": {"name": "y", "oddity": 1}}
    for method, path, body, good in (("POST", CONFIG_MAPS, new, 201), ("PUT", X, ODD, 200)):
        status, warnings, message = await outcome(api, method, path, body, mode)
        if mode == "Strict":
            assert (status, warnings) == (400, [])
            start = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            assert message.startswith(start + "strict decoding error: ")
            assert all(p in message for p in PROBLEMS)
        else:
            assert (status, warnings) == (good, [] if mode == "Ignore" else PROBLEMS)


@pytest.mark.parametrize("media", [MERGE, STRATEGIC, JSON_PATCH])
async def test_unknown_fields_of_patches_are_errors_warnings_or_dropped(
    media: str, api: Api
) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    patch: Any = {"odd": True}
    if media == JSON_PATCH:
        patch = [{"op": "add", "path": "/odd", "value": True}]
    for mode, expected in (
        ("", (200, ['unknown field "odd"'])),
        ("Warn", (200, ['unknown field "odd"'])),
        ("Ignore", (200, [])),
        ("Strict", (422, [])),
    ):
        *seen, message = await outcome(api, "PATCH", X, patch, mode, media)
        assert tuple(seen) == expected
        if mode == "Strict":
            assert message.startswith(' "" is invalid: patch: Invalid value: ')
            assert message.endswith('strict decoding error: unknown field "odd"')


TWICE = '{"metadata":{"name":"x","name":"x"},"data":{"k":"1","k":"2"}}'


@pytest.mark.parametrize("mode", ["", "Warn", "Ignore", "Strict"])
async def test_duplicate_json_keys_are_errors_warnings_or_ignored(mode: str, api: Api) -> None:
    problems = ['duplicate field "data.k"', 'duplicate field "metadata.name"']
    status, warnings, message = await outcome(api, "POST", CONFIG_MAPS, TWICE, mode)
    if mode == "Strict":
        assert status == 400
        assert all(p in message for p in problems)
    else:
        assert (status, warnings) == (201, [] if mode == "Ignore" else problems)
        assert (await api.get(X))["data"] == {"k": "2"}
        patch = '{"data":{"k":"3","k":"4"}}'
        for media in (MERGE, STRATEGIC):
            status, warnings, _ = await outcome(api, "PATCH", X, patch, mode, media)
            assert (status, warnings) == (200, [] if mode == "Ignore" else problems[:1])


@pytest.mark.parametrize("mode", ["", "Warn", "Ignore", "Strict"])
async def test_duplicate_yaml_keys_are_errors_warnings_or_ignored(mode: str, api: Api) -> None:
    text = "metadata:\n  name: x\ndata:\n  k: one\n  k: two\nimmutable: false\nimmutable: false\n"
    problems = [
        'line 5: key "k" already set in map',
        'line 7: key "immutable" already set in map',
    ]
    seen = await outcome(api, "POST", CONFIG_MAPS, text, mode, "application/yaml")
    status, warnings, message = seen
    if mode == "Strict":
        assert status == 400
        assert all(p in message for p in problems)
    else:
        assert (status, warnings) == (201, [] if mode == "Ignore" else problems)


SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "list": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"y": {"type": "integer"}}},
                },
            },
        }
    },
}


@pytest.mark.parametrize("mode", ["", "Warn", "Ignore", "Strict"])
async def test_unknown_and_duplicate_fields_of_custom_resources_are_reported(
    mode: str, api: Api
) -> None:
    await api.install(crd(schema=SCHEMA))
    body = {**widget("w", {"n": 1, "bad": 2, "list": [{"y": 1, "z": 2}]}, odd=1), "root": 1}
    problems = [
        f'unknown field "{path}"' for path in ("metadata.odd", "root", "spec.bad", "spec.list[0].z")
    ]
    status, warnings, message = await outcome(api, "POST", WIDGETS, body, mode)
    if mode == "Strict":
        assert (status, message) == (
            400,
            'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
            + ", ".join(problems),
        )
        await api.post(WIDGETS, widget("w", {"n": 1}))
    else:
        assert (status, warnings) == (201, [] if mode == "Ignore" else problems)
        assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"n": 1, "list": [{"y": 1}]}
    patch = {"spec": {"nope": 1}}
    status, warnings, _ = await outcome(api, "PATCH", f"{WIDGETS}/w", patch, mode, MERGE)
    assert status == (422 if mode == "Strict" else 200)
    assert warnings == (['unknown field "spec.nope"'] if mode in ("", "Warn") else [])
    text = (
        '{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"v"},'
        '"spec":{"n":1,"n":2}}'
    )
    status, warnings, _ = await outcome(api, "POST", WIDGETS, text, mode)
    assert status == (400 if mode == "Strict" else 201)
    assert warnings == (['duplicate field "spec.n"'] if mode in ("", "Warn") else [])


@pytest.mark.parametrize("mode", ["strict", "None", "warn"])
async def test_other_validation_modes_are_rejected(mode: str, api: Api) -> None:
    for method, kind, path, body, media in (
        ("POST", "CreateOptions", CONFIG_MAPS, config_map("x"), ""),
        ("PUT", "UpdateOptions", X, config_map("x"), ""),
        ("PATCH", "PatchOptions", X, {}, MERGE),
    ):
        query = {"fieldValidation": mode}
        status = await api.refused(422, method, path, body, query=query, content_type=media)
        assert status["message"] == (
            f'{kind}.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "{mode}": '
            'supported values: "", "Ignore", "Strict", "Warn"'
        )


async def test_number_of_warnings_is_limited(api: Api) -> None:
    many = config_map("x") | {f"odd{i:03}": i for i in range(150)}
    reply = await api.call("POST", CONFIG_MAPS, many)
    assert reply.status == 201
    assert sum(len(w) for w in reply.warnings) <= 4096
    status = await api.refused(400, "POST", CONFIG_MAPS, many, query={"fieldValidation": "Strict"})
    assert 'unknown field "odd000"' in status["message"]


async def test_strict_validation_accepts_the_fields_of_secrets(api: Api) -> None:
    strict = {"fieldValidation": "Strict"}
    fine = secret("x", {"a": ""}, stringData={"b": "c"}, type="Opaque", immutable=False)
    await api.post(SECRETS, fine, query=strict, expect=201)
    await api.refused(400, "POST", SECRETS, secret("y", binaryData={}), query=strict)


# -- field managers


def managers(obj: Object) -> list[str]:
    return [m["manager"] for m in obj["metadata"]["managedFields"]]


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        pytest.param("robot/1.2 (linux) extra", "robot", id="product"),
        pytest.param("plain", "plain", id="word"),
        pytest.param("", "unknown", id="none"),
    ],
)
async def test_user_agent_is_the_default_field_manager(agent: str, name: str, api: Api) -> None:
    headers = {"User-Agent": agent} if agent else {}
    made = await api.post(CONFIG_MAPS, config_map("x", {"a": "b"}), headers=headers)
    assert managers(made) == [name]


async def test_field_manager_takes_precedence_over_the_user_agent(api: Api) -> None:
    headers, query = {"User-Agent": "robot/1"}, {"fieldManager": "boss"}
    made = await api.post(CONFIG_MAPS, config_map("x", {"a": "b"}), headers=headers, query=query)
    assert managers(made) == ["boss"]
    after = await api.put(X, config_map("x", {"a": "c"}), query={"fieldManager": "other"})
    assert managers(after) == ["boss", "other"], "the map itself is still the first one's"


@pytest.mark.parametrize("name", ["m" * 129, "a\nb"])
async def test_field_managers_must_be_short_and_printable(name: str, api: Api) -> None:
    for method, path in (("POST", CONFIG_MAPS), ("PUT", X)):
        query = {"fieldManager": name}
        status = await api.refused(422, method, path, config_map("x"), query=query)
        assert 'Options.meta.k8s.io "" is invalid: fieldManager: ' in status["message"]
    await api.refused(
        422, "PATCH", X, config_map("x"), content_type=APPLY, query={"fieldManager": name}
    )
