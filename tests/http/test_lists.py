# SPDX-License-Identifier: Apache-2.0
"""Lists: items, selectors, pages, resource versions."""

import base64
import json

import pytest
from tests.http.client import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MERGE,
    NAMESPACES,
    SECRETS,
    WIDGETS,
    Api,
    config_map,
    crd,
    event,
    lease,
    namespace,
    secret,
    widget,
)


@pytest.fixture
async def zoo(api: Api) -> Api:
    """Five config maps with labels."""
    for i, kind in enumerate(("cat", "dog", "cat", "emu", "dog")):
        labels = {"kind": kind, "legs": "2" if kind == "emu" else "4", f"is-{kind}": ""}
        await api.post(CONFIG_MAPS, config_map(f"pet-{i}", {"n": str(i)}, labels=labels))
    return api


async def test_list_has_kind_and_version_but_its_items_do_not(zoo: Api) -> None:
    found = await zoo.get(CONFIG_MAPS)
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert set(found["metadata"]) == {"resourceVersion"}
    last = max(int(o["metadata"]["resourceVersion"]) for o in found["items"])
    assert int(found["metadata"]["resourceVersion"]) == last
    assert all("kind" not in o and "apiVersion" not in o for o in found["items"])
    assert await zoo.names(CONFIG_MAPS) == [f"pet-{i}" for i in range(5)]


async def test_empty_list_has_an_empty_array(api: Api) -> None:
    found = await api.get(LEASES)
    assert (found["kind"], found["items"]) == ("LeaseList", [])


async def test_items_of_custom_resources_have_kind_and_version(api: Api) -> None:
    await api.install(crd())
    empty = await api.get(WIDGETS)
    assert (empty["items"], empty["metadata"]["continue"]) == ([], "")
    await api.post(WIDGETS, widget("a"))
    (item,) = (await api.get(WIDGETS))["items"]
    assert (item["kind"], item["apiVersion"]) == ("Widget", "shop.example.com/v1")


async def test_list_of_all_namespaces_is_in_key_order(api: Api) -> None:
    for space in ("b", "b-2", "a"):
        await api.post(NAMESPACES, namespace(space))
        path = f"/api/v1/namespaces/{space}/configmaps"
        await api.post(path, config_map(f"in-{space}", labels={"mine": "yes"}))
    query = {"labelSelector": "mine"}
    assert await api.names("/api/v1/configmaps", query=query) == ["in-a", "in-b-2", "in-b"]
    query = {"fieldSelector": "metadata.namespace=b-2"}
    assert await api.names("/api/v1/configmaps", query=query) == ["in-b-2"]


# -- selectors


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param("", "01234", id="empty"),
        pytest.param(" ", "01234", id="blank"),
        pytest.param("kind=cat", "02", id="equal"),
        pytest.param("kind==cat", "02", id="equal twice"),
        pytest.param("kind!=cat", "134", id="not equal"),
        pytest.param("kind in (cat, emu)", "023", id="in"),
        pytest.param("kind notin (cat,emu)", "14", id="notin"),
        pytest.param("is-dog", "14", id="exists"),
        pytest.param("!is-dog", "023", id="does not exist"),
        pytest.param("legs>2", "0124", id="greater"),
        pytest.param("legs<3", "3", id="less"),
        pytest.param("legs=4,!is-cat", "14", id="both"),
        pytest.param("kind=", "", id="empty value"),
        pytest.param("is-cat=", "02", id="the empty value"),
        pytest.param("colour!=red", "01234", id="an absent label differs"),
        pytest.param("colour notin (red)", "01234", id="an absent label is not in"),
    ],
)
async def test_label_selectors_select_objects(selector: str, chosen: str, zoo: Api) -> None:
    query = {"labelSelector": selector}
    assert await zoo.names(CONFIG_MAPS, query=query) == [f"pet-{i}" for i in chosen]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        pytest.param(
            "x y",
            "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt",
            id="no operator",
        ),
        pytest.param("x=y=z", "found '=', expected: ',' or 'end of string'", id="two equals"),
        pytest.param("x=y z", "found 'z', expected: ',' or 'end of string'", id="two values"),
        pytest.param("x in y", "unable to parse requirement: found 'y' expected: '('", id="in"),
        pytest.param(
            "x in (y", "unable to parse requirement: found '', expected: ',' or ')'", id="open"
        ),
        pytest.param("x notin", "unable to parse requirement: found '' expected: '('", id="notin"),
        pytest.param(
            "(x)", "found '(', expected: !, identifier, or 'end of string'", id="parentheses"
        ),
        pytest.param("=y", "found '=', expected: !, identifier, or 'end of string'", id="no key"),
        pytest.param(
            ",", "found ',', expected: !, identifier, or 'end of string'", id="only a comma"
        ),
        pytest.param("x,,y", "found ',', expected: identifier after ','", id="two commas"),
        pytest.param(
            "!", "unable to parse requirement: found '', expected: identifier", id="only not"
        ),
        pytest.param(
            f"x={'v' * 64}",
            "unable to parse requirement: values[0][x]: Invalid value: "
            f'"{"v" * 64}": must be no more than 63 bytes',
            id="long value",
        ),
        pytest.param(
            "x>y",
            'unable to parse requirement: values[0]: Invalid value: "y": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="greater than a word",
        ),
    ],
)
async def test_malformed_label_selectors_report_the_position(
    selector: str, message: str, api: Api
) -> None:
    query = {"labelSelector": selector}
    status = await api.refused(400, "GET", CONFIG_MAPS, query=query)
    assert (status["reason"], status["message"]) == ("BadRequest", message)
    status = await api.refused(400, "GET", CONFIG_MAPS, query={**query, "watch": "1"})
    assert status["message"] == message


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param("", "01234", id="empty"),
        pytest.param("metadata.name=pet-3", "3", id="name"),
        pytest.param("metadata.name==pet-3", "3", id="name twice equal"),
        pytest.param("metadata.name!=pet-3", "0124", id="other names"),
        pytest.param("metadata.namespace=default", "01234", id="namespace"),
        pytest.param("metadata.namespace=elsewhere", "", id="another namespace"),
        pytest.param("metadata.name=pet-1,metadata.name=pet-2", "", id="two names"),
        pytest.param("metadata.name=pet-1,metadata.namespace=default", "1", id="both"),
    ],
)
async def test_field_selectors_select_objects(selector: str, chosen: str, zoo: Api) -> None:
    query = {"fieldSelector": selector}
    assert await zoo.names(CONFIG_MAPS, query=query) == [f"pet-{i}" for i in chosen]


@pytest.mark.parametrize(
    ("path", "selector", "message"),
    [
        pytest.param(
            CONFIG_MAPS,
            "data.n=1",
            '"data.n" is not a known field selector: only "metadata.name", "metadata.namespace"',
            id="configmap",
        ),
        pytest.param(SECRETS, "data=x", "field label not supported: data", id="secret"),
        pytest.param(EVENTS, "note=x", "field label not supported: note", id="event"),
        pytest.param(CONFIG_MAPS, "nonsense", "invalid selector: 'nonsense'", id="no operator"),
    ],
)
async def test_unknown_fields_cannot_be_selected(
    path: str, selector: str, message: str, api: Api
) -> None:
    status = await api.refused(400, "GET", path, query={"fieldSelector": selector})
    assert message in status["message"]


async def test_secrets_can_be_selected_by_type(api: Api) -> None:
    await api.post(SECRETS, secret("plain"))
    await api.post(SECRETS, secret("own", type="shop.example.com/own"))
    assert await api.names(SECRETS, query={"fieldSelector": "type=Opaque"}) == ["plain"]
    query = {"fieldSelector": "type!=Opaque,metadata.name!=plain"}
    assert await api.names(SECRETS, query=query) == ["own"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("involvedObject.kind=Pod", ["two"], id="kind"),
        pytest.param("involvedObject.name=t", ["one"], id="name"),
        pytest.param("reason=Moved,type=Normal", ["one"], id="reason and type"),
        pytest.param("type=Warning", ["two"], id="type"),
        pytest.param("source=camera", ["one", "two"], id="source"),
        pytest.param("reportingComponent=camera", [], id="reporting component"),
    ],
)
async def test_events_can_be_selected_by_involved_object(
    selector: str, names: list[str], api: Api
) -> None:
    source = {"component": "camera"}
    await api.post(EVENTS, event("one", reason="Moved", type="Normal", source=source))
    about = {"namespace": "default", "kind": "Pod", "name": "p"}
    other = event("two", reason="Fell", type="Warning", source=source)
    await api.post(EVENTS, other | {"involvedObject": about})
    assert await api.names(EVENTS, query={"fieldSelector": selector}) == names


async def test_namespaces_can_be_selected_by_phase(api: Api) -> None:
    await api.post(NAMESPACES, namespace("leaving"))
    await api.delete(f"{NAMESPACES}/leaving")
    query = {"fieldSelector": "status.phase=Terminating"}
    assert await api.names(NAMESPACES, query=query) == ["leaving"]


async def test_custom_resources_can_be_selected_by_selectable_fields(api: Api) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "string"}}}},
    }
    fields = [{"jsonPath": ".spec.size"}]
    await api.install(crd(schema=schema, selectableFields=fields))
    await api.post(WIDGETS, widget("small", {"size": "s"}))
    await api.post(WIDGETS, widget("large", {"size": "l"}))
    assert await api.names(WIDGETS, query={"fieldSelector": "spec.size=l"}) == ["large"]
    assert await api.names(WIDGETS, query={"fieldSelector": "metadata.name=small"}) == ["small"]
    status = await api.refused(400, "GET", WIDGETS, query={"fieldSelector": "spec.hue=l"})
    assert status["message"] == "field label not supported: spec.hue"


# -- pages


async def test_pages_continue_without_gap_or_repetition(zoo: Api) -> None:
    first = await zoo.get(CONFIG_MAPS, query={"limit": 2})
    assert [o["metadata"]["name"] for o in first["items"]] == ["pet-0", "pet-1"]
    token = first["metadata"]["continue"]
    second = await zoo.get(CONFIG_MAPS, query={"limit": 2, "continue": token})
    assert [o["metadata"]["name"] for o in second["items"]] == ["pet-2", "pet-3"]
    token = second["metadata"]["continue"]
    last = await zoo.get(CONFIG_MAPS, query={"limit": 2, "continue": token})
    assert [o["metadata"]["name"] for o in last["items"]] == ["pet-4"]
    assert set(last["metadata"]) == {"resourceVersion"}
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, last)}
    assert len(versions) == 1


async def test_later_pages_show_the_state_of_the_first(zoo: Api) -> None:
    first = await zoo.get(CONFIG_MAPS, query={"limit": 1})
    await zoo.post(CONFIG_MAPS, config_map("pet-9"))
    await zoo.delete(f"{CONFIG_MAPS}/pet-1")
    await zoo.patch(f"{CONFIG_MAPS}/pet-2", {"data": {"n": "changed"}}, MERGE)
    rest = await zoo.get(CONFIG_MAPS, query={"continue": first["metadata"]["continue"]})
    assert [o["data"]["n"] for o in rest["items"]] == ["1", "2", "3", "4"]
    assert await zoo.names(CONFIG_MAPS) == ["pet-0", "pet-2", "pet-3", "pet-4", "pet-9"]


async def test_pages_of_a_selection_have_no_remaining_count(zoo: Api) -> None:
    query = {"limit": 1, "labelSelector": "kind=dog"}
    first = await zoo.get(CONFIG_MAPS, query=query)
    assert "remainingItemCount" not in first["metadata"]
    query["continue"] = first["metadata"]["continue"]
    assert await zoo.names(CONFIG_MAPS, query=query) == ["pet-4"]


async def test_pages_span_namespaces(api: Api) -> None:
    for space in ("a", "b", "c"):
        await api.post(NAMESPACES, namespace(space))
        await api.post(f"/api/v1/namespaces/{space}/configmaps", config_map("x"))
    token, seen = "", []
    while True:
        query = {"limit": 1, **({"continue": token} if token else {})}
        page = await api.get("/api/v1/configmaps", query=query)
        seen += [o["metadata"]["namespace"] for o in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == ["a", "b", "c"]


def token(**members: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("!!", "illegal base64 data at input byte 0", id="no base64"),
        pytest.param("bm9wZQ", "invalid character 'o' in literal null", id="no JSON"),
        pytest.param(
            token(v="meta.k8s.io/v1", rv=3, start=""), "encoded start key empty", id="no start"
        ),
        pytest.param(
            token(v="other/v7", rv=3, start="a"),
            "server does not recognize this encoded version other/v7",
            id="another version",
        ),
        pytest.param(
            token(v="meta.k8s.io/v1", rv=3, start="/../x"), "continue key is not valid", id="escape"
        ),
    ],
)
async def test_malformed_continue_tokens_are_rejected(text: str, message: str, api: Api) -> None:
    status = await api.refused(400, "GET", CONFIG_MAPS, query={"limit": 1, "continue": text})
    assert status["message"].startswith("invalid continue token: continue key is not valid: ")
    assert message in status["message"]


async def test_continued_list_cannot_have_a_resource_version(zoo: Api) -> None:
    page = await zoo.get(CONFIG_MAPS, query={"limit": 1})
    query = {"continue": page["metadata"]["continue"], "resourceVersion": "3"}
    status = await zoo.refused(400, "GET", CONFIG_MAPS, query=query)
    assert status["message"] == "specifying resource version is not allowed when using continue"


async def test_compacted_page_returns_a_new_continue_token(zoo: Api) -> None:
    page = await zoo.get(CONFIG_MAPS, query={"limit": 2})
    await zoo.post(CONFIG_MAPS, config_map("pet-9"))
    await zoo.server.store.compact(zoo.server.store.revision)
    query = {"limit": 9, "continue": page["metadata"]["continue"]}
    status = await zoo.refused(410, "GET", CONFIG_MAPS, query=query)
    assert status["reason"] == "Expired"
    query["continue"] = status["metadata"]["continue"]
    assert await zoo.names(CONFIG_MAPS, query=query) == ["pet-2", "pet-3", "pet-4", "pet-9"]


# -- resource versions


async def test_exact_version_shows_the_state_at_that_revision(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", {"n": "old"}))
    then = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    await api.put(f"{CONFIG_MAPS}/x", config_map("x", {"n": "new"}))
    await api.post(CONFIG_MAPS, config_map("y"))
    query = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    found = await api.get(CONFIG_MAPS, query=query)
    assert [o["data"] for o in found["items"]] == [{"n": "old"}]
    assert found["metadata"]["resourceVersion"] == then
    query["resourceVersionMatch"] = "NotOlderThan"
    assert await api.names(CONFIG_MAPS, query=query) == ["x", "y"]


@pytest.mark.parametrize("match", [None, "Exact", "NotOlderThan"])
async def test_future_version_times_out(match: str | None, api: Api) -> None:
    query = {"resourceVersion": "123456789"}
    if match:
        query["resourceVersionMatch"] = match
    status = await api.refused(504, "GET", CONFIG_MAPS, query=query)
    assert status["reason"] == "Timeout"
    assert status["message"].startswith("Timeout: Too large resource version: 123456789, current: ")
    assert status["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]


async def test_compacted_exact_version_is_expired(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    await api.server.store.compact(api.server.store.revision)
    query = {"resourceVersion": "5", "resourceVersionMatch": "Exact"}
    status = await api.refused(410, "GET", CONFIG_MAPS, query=query)
    assert status["reason"] == "Expired"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        pytest.param("resourceVersionMatch=Exact", "resourceVersionMatch", id="match alone"),
        pytest.param(
            "resourceVersionMatch=Nearly&resourceVersion=3", "resourceVersionMatch", id="unknown"
        ),
        pytest.param(
            "resourceVersionMatch=Exact&resourceVersion=0", "resourceVersionMatch", id="exactly 0"
        ),
        pytest.param("sendInitialEvents=true", "sendInitialEvents", id="initial events"),
    ],
)
async def test_contradictory_options_are_rejected(query: str, field: str, api: Api) -> None:
    status = await api.refused(422, "GET", f"{CONFIG_MAPS}?{query}")
    start = f'ListOptions.meta.k8s.io "" is invalid: {field}: '
    assert status["message"].startswith((start + "Forbidden: ", start + "Unsupported value: "))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("limit=", 'strconv.ParseInt: parsing "": invalid syntax', id="empty limit"),
        pytest.param("limit=many", 'strconv.ParseInt: parsing "many": invalid syntax', id="word"),
        pytest.param("limit=2.5", 'strconv.ParseInt: parsing "2.5": invalid syntax', id="fraction"),
        pytest.param(
            "timeoutSeconds=9s", 'strconv.ParseInt: parsing "9s": invalid syntax', id="timeout"
        ),
        pytest.param(
            "limit=99999999999999999999",
            'strconv.ParseInt: parsing "99999999999999999999": value out of range',
            id="too large",
        ),
    ],
)
async def test_numbers_in_the_query_must_be_numbers(query: str, message: str, api: Api) -> None:
    status = await api.refused(400, "GET", f"{CONFIG_MAPS}?{query}")
    assert status["message"] == message


async def test_booleans_in_the_query_are_lenient(api: Api) -> None:
    assert await api.names(f"{CONFIG_MAPS}?allowWatchBookmarks=perhaps") == []
    assert await api.names(f"{CONFIG_MAPS}?watch=0") == []
    assert await api.names(f"{CONFIG_MAPS}?watch=false") == []


@pytest.mark.parametrize("version", ["abc", "-1", "1.5"])
async def test_malformed_versions_of_lists_are_rejected(version: str, api: Api) -> None:
    reply = await api.call("GET", CONFIG_MAPS, query={"resourceVersion": version})
    assert reply.status in (400, 500)
    assert f'strconv.ParseUint: parsing "{version}": invalid syntax' in reply.json()["message"]


async def test_versions_of_lists_of_other_kinds_do_not_wait(api: Api) -> None:
    await api.post(LEASES, lease("x"))
    version = str(api.server.store.revision)
    assert await api.names(CONFIG_MAPS, query={"resourceVersion": version}) == []


# -- each API version has its own selectable fields


async def test_both_event_apis_select_by_their_own_fields(api: Api) -> None:
    other = "/apis/events.k8s.io/v1/namespaces/default/events"
    await api.post(EVENTS, event("a", reason="Started"))
    for _ in range(2):
        for path, field in ((EVENTS, "involvedObject.namespace"), (other, "regarding.namespace")):
            assert await api.names(path, query={"fieldSelector": f"{field}=default"}) == ["a"]


async def test_versions_of_a_crd_select_by_their_own_fields(api: Api) -> None:
    text = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "description": name,
                    "properties": {"spec": text},
                }
            },
            "selectableFields": [{"jsonPath": f".spec.{field}"}],
        }
        for name, field in (("v1", "a"), ("v2", "b"))
    ]
    await api.install(crd(versions=versions))
    await api.post(WIDGETS, widget("x", {"a": "1", "b": "2"}))
    for path, selector in ((WIDGETS, "spec.a=1"), (WIDGETS.replace("/v1/", "/v2/"), "spec.b=2")):
        assert await api.names(path, query={"fieldSelector": selector}) == ["x"]


# -- order of errors, representations and pages


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        pytest.param({"resourceVersion": "abc"}, 400, "invalid resource version: ", id="version"),
        pytest.param(
            {"sendInitialEvents": "x", "fieldSelector": "a~b"},
            400,
            "invalid selector: 'a~b'; can't understand 'a~b'",
            id="field selector before options",
        ),
        pytest.param(
            {"resourceVersionMatch": "Exact", "labelSelector": "a in"},
            400,
            "unable to parse requirement: ",
            id="label selector before options",
        ),
        pytest.param(
            {"timeoutSeconds": "a", "limit": "b"},
            400,
            'strconv.ParseInt: parsing "a": invalid syntax',
            id="timeout before limit",
        ),
        pytest.param(
            {"continue": "e30="},
            400,
            "invalid continue token: continue key is not valid: illegal base64 data at input "
            "byte 3",
            id="padded token",
        ),
        pytest.param(
            {"timeout": "abc"},
            400,
            'invalid timeout specified in the request URL - time: invalid duration "abc"',
            id="timeout",
        ),
        pytest.param(
            {"timeout": "5"},
            400,
            'invalid timeout specified in the request URL - time: missing unit in duration "5"',
            id="timeout without unit",
        ),
        pytest.param(
            {"timeout": "5x"},
            400,
            'invalid timeout specified in the request URL - time: unknown unit "x" in duration '
            '"5x"',
            id="timeout with unknown unit",
        ),
    ],
)
async def test_list_reports_the_first_bad_option(
    query: dict[str, str], code: int, message: str, api: Api
) -> None:
    status = (await api.call("GET", CONFIG_MAPS, query=query)).json()
    assert status["code"] == code
    assert status["message"].startswith(message)


@pytest.mark.parametrize("timeout", ["", "0", "1m30s", ".5h", "-1s"])
async def test_valid_timeouts_are_accepted(timeout: str, api: Api) -> None:
    await api.get(CONFIG_MAPS, query={"timeout": timeout}, expect=200)


_ROUTED = "406: Not Acceptable\n\nAvailable representations: "
_ONLY = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize("accept", ["application/*", "APPLICATION/JSON", "text/html", "garbage"])
async def test_built_in_kinds_are_routed_by_exact_media_type(accept: str, api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    headers = {"Accept": accept}
    one = (await api.call("GET", f"{CONFIG_MAPS}/a", headers=headers)).json()
    assert (one["code"], one["message"]) == (406, _ROUTED + _ONLY)
    many = (await api.call("GET", CONFIG_MAPS, headers=headers)).json()
    assert many["message"].startswith(_ROUTED + _ONLY + ", application/json;stream=watch")


async def test_custom_resources_negotiate_without_a_route(api: Api) -> None:
    await api.install(crd())
    await api.get(WIDGETS, headers={"Accept": "application/*"}, expect=200)
    refused = (await api.call("GET", WIDGETS, headers={"Accept": "APPLICATION/JSON"})).json()
    assert refused["message"] == f"only the following media types are accepted: {_ONLY}"


async def test_metadata_of_one_object_is_not_a_representation_of_a_list(api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("a"))
    accept = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
    for path, type_ in (
        (LEASES, "*coordination.LeaseList"),
        ("/apis/events.k8s.io/v1/events", "*core.EventList"),
        (WIDGETS, "*unstructured.UnstructuredList"),
    ):
        status = (await api.call("GET", path, headers={"Accept": accept.format("")})).json()
        assert status["message"] == (
            f"you requested PartialObjectMetadata, but the requested object is a list ({type_})"
        )
    status = (
        await api.call("GET", f"{WIDGETS}/a", headers={"Accept": accept.format("List")})
    ).json()
    assert status["message"] == (
        "you requested PartialObjectMetadataList, but the requested object is not a list "
        "(*unstructured.Unstructured)"
    )


async def test_errors_have_no_other_representation(api: Api) -> None:
    headers = {"Accept": "application/yaml;as=Table;v=v1;g=meta.k8s.io"}
    reply = await api.call("GET", f"{CONFIG_MAPS}/none", headers=headers)
    assert (reply.json()["code"], reply.json()["kind"]) == (404, "Status")


async def test_page_counts_the_remaining_objects_only_without_selectors(zoo: Api) -> None:
    page = await zoo.get(CONFIG_MAPS, query={"limit": "2"})
    assert page["metadata"]["remainingItemCount"] == 3
    query = {"limit": "2", "continue": page["metadata"]["continue"]}
    page = await zoo.get(CONFIG_MAPS, query=query)
    assert page["metadata"]["remainingItemCount"] == 1
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    page = await zoo.get(CONFIG_MAPS, query={"limit": "2"}, headers=table)
    assert page["metadata"]["remainingItemCount"] == 3
    page = await zoo.get(CONFIG_MAPS, query={"limit": "1", "labelSelector": "kind=dog"})
    assert "remainingItemCount" not in page["metadata"]


async def test_any_further_object_makes_another_page(zoo: Api) -> None:
    query = {"limit": "2", "labelSelector": "kind=cat"}
    page = await zoo.get(CONFIG_MAPS, query=query)
    assert [o["metadata"]["name"] for o in page["items"]] == ["pet-0", "pet-2"]
    page = await zoo.get(CONFIG_MAPS, query={**query, "continue": page["metadata"]["continue"]})
    assert (page["items"], set(page["metadata"])) == ([], {"resourceVersion"})


async def test_later_pages_of_an_old_state_count_and_cut_as_the_first(zoo: Api) -> None:
    first = await zoo.get(CONFIG_MAPS, query={"limit": 2})
    assert first["metadata"]["remainingItemCount"] == 3
    await zoo.post(CONFIG_MAPS, config_map("pet-2b"))
    await zoo.delete(f"{CONFIG_MAPS}/pet-3")
    query = {"limit": 2, "continue": first["metadata"]["continue"]}
    second = await zoo.get(CONFIG_MAPS, query=query)
    assert [o["metadata"]["name"] for o in second["items"]] == ["pet-2", "pet-3"]
    assert second["metadata"]["remainingItemCount"] == 1
    query["continue"] = second["metadata"]["continue"]
    third = await zoo.get(CONFIG_MAPS, query=query)
    assert [o["metadata"]["name"] for o in third["items"]] == ["pet-4"]
    assert set(third["metadata"]) == {"resourceVersion"}
