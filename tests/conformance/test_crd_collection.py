# SPDX-License-Identifier: Apache-2.0
"""CRDs in the style of well-known operators can be installed and validate their objects.

Each file of `tests/data/crds` holds a CRD and a document about it: an `example`
object with its `stored` spec and Table `cells`, `cases` (for a feature, a change
of the example's spec that is accepted and one that is rejected, with the errors,
and `blocks` if these prevent the evaluation of rules) and `updates` (the same for a
change of an existing object). A change is a merge patch. The last tests check that
the collection covers every feature.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.conftest import Kubectl, manifest
from tests.http.client import CRDS, MERGE, Api

from rdd.api.types import Object
from rdd.testing import Options, Server

STRICT = {"fieldValidation": "Strict"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ANY = "ANY"
NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was "
    "invalid; correct the existing errors to complete validation"
)


@dataclass(frozen=True, slots=True)
class Case:
    """A feature with an accepted and a rejected value, as changes of a spec."""

    feature: str
    accept: Object
    refuse: Object
    errors: list[str] = field(default_factory=list)
    code: int = 422
    message: str | None = None
    blocks: bool = False
    before: Object = field(default_factory=dict)
    then: Object = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collected:
    """One file of the collection."""

    name: str
    crd: Object
    example: Object
    stored: Object
    cells: list[Any]
    cases: list[Case]
    updates: list[Case]
    scale: Object | None

    @property
    def path(self) -> str:
        """Path of the objects."""
        spec = self.crd["spec"]
        scope = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
        return f"/apis/{self.example['apiVersion']}/{scope}{spec['names']['plural']}"

    @property
    def one(self) -> str:
        """Path of the example."""
        return f"{self.path}/{self.example['metadata']['name']}"

    def changed(self, *changes: Object) -> Object:
        """Return the example with changes of its spec."""
        spec = self.example["spec"]
        for change in changes:
            spec = merged(spec, change)
        return {**self.example, "spec": spec}


def merged(target: Any, change: Any) -> Any:
    """Return the result of a merge patch."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def kept(change: Any, stored: Any) -> bool:
    """Return whether a change was stored; defaults may have been added."""
    if isinstance(change, dict):
        return isinstance(stored, dict) and all(
            kept(value, stored.get(key)) for key, value in change.items()
        )
    if isinstance(change, list):
        return len(change) == len(stored) and all(map(kept, change, stored))
    return bool(change == stored)


def _load(path: Path) -> Collected:
    crd, about = yaml.safe_load_all(path.read_text())
    return Collected(
        path.stem,
        crd,
        about["example"],
        about["stored"],
        about["cells"],
        [Case(**case) for case in about["cases"]],
        [Case(**case) for case in about.get("updates", [])],
        about.get("scale"),
    )


DIRECTORY = Path(__file__).parent.parent / "data" / "crds"
COLLECTION = [_load(path) for path in sorted(DIRECTORY.glob("*.yaml"))]


def every(items: list[Collected]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("c", [pytest.param(c, id=c.name) for c in items])


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Return the API of a fresh server without controllers."""
    async with Server(Options(builtin_controllers="")) as server:
        yield Api(server)


async def install(api: Api, c: Collected) -> None:
    """Create the CRD with strict field validation and wait until it is served."""
    await api.post(CRDS, c.crd, expect=201, query=STRICT)
    await api.server.running.custom.settled()
    assert api.server.running.custom.served(c.crd["metadata"]["name"])


def texts(status: Object) -> list[str]:
    return sorted(f"{e['field']}: {e['message']}" for e in status["details"]["causes"])


async def check_rejected(api: Api, case: Case, method: str, path: str, body: Object) -> None:
    """Check that a request fails with the errors of the case, all of them in the message."""
    kind = "application/json" if method == "POST" else MERGE
    reply = await api.call(method, path, body, query=STRICT, content_type=kind)
    assert reply.status == case.code, f"{case.feature}: {reply.text}"
    status = reply.json()
    if case.message is not None:
        assert status["message"] == case.message
        return
    errors = [*case.errors, NOT_CHECKED] if case.blocks else case.errors
    assert texts(status) == sorted(errors), case.feature
    assert all(error in status["message"] for error in errors)
    assert status["reason"] == "Invalid"


@every(COLLECTION)
async def test_example_is_stored_with_defaults_and_listed_as_table(c: Collected, api: Api) -> None:
    await install(api, c)
    made = await api.post(c.path, c.example, expect=201, query=STRICT)
    assert made["spec"] == c.stored
    assert (await api.get(c.one))["spec"] == c.stored
    table = await api.get(c.path, headers={"Accept": TABLE})
    (row,) = table["rows"]
    assert len(row["cells"]) == len(table["columnDefinitions"]) == len(c.cells)
    pairs = zip(row["cells"], c.cells, strict=True)
    assert all(want in (ANY, cell) for cell, want in pairs), row["cells"]


@every(COLLECTION)
async def test_each_feature_rejects_invalid_values_only(c: Collected, api: Api) -> None:
    await install(api, c)
    for case in c.cases:
        body = c.changed(case.accept)
        made = await api.post(c.path, body, expect=201, query=STRICT)
        assert kept(case.accept, made["spec"]), f"{case.feature}: {made['spec']}"
        await api.delete(c.one)
        await check_rejected(api, case, "POST", c.path, c.changed(case.refuse))


@every([c for c in COLLECTION if c.updates])
async def test_each_transition_is_accepted_or_rejected(c: Collected, api: Api) -> None:
    await install(api, c)
    for case in c.updates:
        await api.post(c.path, c.changed(case.before), expect=201)
        if case.then:
            await api.patch(c.one, {"spec": case.then})
        await check_rejected(api, case, "PATCH", c.one, {"spec": case.refuse})
        await api.patch(c.one, {"spec": case.accept})
        await api.delete(c.one)


@every([c for c in COLLECTION if c.scale])
async def test_scaled_kinds_are_scaled(c: Collected, api: Api) -> None:
    assert c.scale is not None
    await install(api, c)
    await api.post(c.path, c.example)
    path = f"{c.one}/scale"
    scaled = await api.patch(path, {"spec": {"replicas": c.scale["replicas"]}})
    assert scaled["kind"] == "Scale"
    assert (await api.get(path))["spec"] == {"replicas": c.scale["replicas"]}
    body = {"spec": {"replicas": c.scale["refuse"]}}
    status = await api.refused(422, "PATCH", path, body, content_type=MERGE)
    assert texts(status) == c.scale["errors"]


@every([c for c in COLLECTION if "selectableFields" in c.crd["spec"]["versions"][0]])
async def test_selectable_fields_select(c: Collected, api: Api) -> None:
    await install(api, c)
    await api.post(c.path, c.example)
    for selectable in c.crd["spec"]["versions"][0]["selectableFields"]:
        name = selectable["jsonPath"].removeprefix(".")
        value = c.stored[name.removeprefix("spec.")]
        text = str(value).lower() if isinstance(value, bool) else value
        found = {"fieldSelector": f"{name}={text}"}
        assert await api.names(c.path, query=found) == [c.example["metadata"]["name"]]
        assert await api.names(c.path, query={"fieldSelector": f"{name}=other"}) == []
    status = await api.refused(400, "GET", c.path, query={"fieldSelector": "spec.none=x"})
    assert status["message"] == "field label not supported: spec.none"


async def test_names_and_categories_are_discovered(api: Api) -> None:
    for c in COLLECTION:
        await install(api, c)
        names = c.crd["spec"]["names"]
        found = await api.get(f"/apis/{c.example['apiVersion']}")
        (entry,) = [r for r in found["resources"] if r["name"] == names["plural"]]
        for member in ("kind", "shortNames", "categories"):
            assert entry.get(member) == names.get(member), c.name
        subresources = c.crd["spec"]["versions"][0].get("subresources", {})
        assert {r["name"] for r in found["resources"]} == {
            names["plural"],
            *(f"{names['plural']}/{s}" for s in subresources),
        }


async def test_deprecated_versions_warn_and_unserved_ones_are_missing(api: Api) -> None:
    (tenants,) = [c for c in COLLECTION if c.name == "tenants"]
    await install(api, tenants)
    await api.post(tenants.path, tenants.example)
    old = tenants.one.replace("/v1/", "/v1beta1/")
    reply = await api.call("GET", old)
    assert reply.warnings == ["house.example.com/v1beta1 Tenant is deprecated; use v1"]
    assert reply.json() | {"apiVersion": "house.example.com/v1"} == await api.get(tenants.one)
    assert (await api.call("GET", tenants.one.replace("/v1/", "/v1alpha1/"))).status == 404
    # A value of the looser version stays until a request to the stricter one changes it.
    await api.patch(old, {"spec": {"plan": "gold"}})
    made = await api.patch(tenants.one, {"spec": {"owner": "bob"}})
    assert (made["spec"]["plan"], made["spec"]["owner"]) == ("gold", "bob")
    silver = {"spec": {"plan": "silver"}}
    status = await api.refused(422, "PATCH", tenants.one, silver, content_type=MERGE)
    assert texts(status) == [
        'spec.plan: Unsupported value: "silver": supported values: "free", "paid"'
    ]


def test_kubectl_installs_the_collection(k: Kubectl, tmp_path: Path) -> None:
    for c in COLLECTION:
        (tmp_path / f"{c.name}.yaml").write_text(manifest(c.crd))
    k("apply", "-f", str(tmp_path))
    k("wait", "--for=condition=Established", "--timeout=30s", "-f", str(tmp_path))
    created = k("create", "-f", "-", stdin=manifest(*(c.example for c in COLLECTION)))
    assert len(created.lines) == len(COLLECTION)
    for c in COLLECTION:
        names = c.crd["spec"]["names"]
        word = names.get("shortNames", [names["plural"]])[0]
        listed = k("get", word)
        assert any(line.startswith(c.example["metadata"]["name"]) for line in listed.lines)
    # CRDs are cluster-scoped, and the server is shared with other tests.
    k("delete", "-f", str(tmp_path))


# -- coverage


def versions() -> Iterator[Object]:
    for c in COLLECTION:
        yield from c.crd["spec"]["versions"]


def schemas(schema: Object) -> Iterator[Object]:
    """Yield a schema and all schemas in it."""
    yield schema
    for one in schema.get("properties", {}).values():
        yield from schemas(one)
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            yield from schemas(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        for one in schema.get(key, []):
            yield from schemas(one)


SCHEMAS = [s for v in versions() for s in schemas(v["schema"]["openAPIV3Schema"])]
RULES = [r for s in SCHEMAS for r in s.get("x-kubernetes-validations", [])]


def words(text: str) -> set[str]:
    return set(text.split())


def seen(key: str) -> set[Any]:
    return {s[key] for s in SCHEMAS if key in s}


def test_every_keyword_of_schemas_occurs() -> None:
    wanted = words("""
        type format title description example externalDocs enum pattern default nullable
        minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength
        minItems maxItems uniqueItems minProperties maxProperties required properties items
        additionalProperties oneOf anyOf allOf not
        x-kubernetes-preserve-unknown-fields x-kubernetes-embedded-resource
        x-kubernetes-int-or-string x-kubernetes-list-type x-kubernetes-list-map-keys
        x-kubernetes-map-type x-kubernetes-validations
    """)
    assert {key for s in SCHEMAS for key in s} == wanted


def test_every_value_of_the_closed_keywords_occurs() -> None:
    assert seen("type") == {"object", "array", "string", "integer", "number", "boolean"}
    assert seen("x-kubernetes-list-type") == {"atomic", "set", "map"}
    assert seen("x-kubernetes-map-type") == {"atomic", "granular"}
    assert seen("uniqueItems") == {False}
    formats = words("""
        int32 int64 float double byte date date-time datetime duration password email uri
        hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 bsonobjectid isbn isbn10 isbn13
        creditcard ssn hexcolor rgbcolor made-up
    """)
    assert seen("format") == formats


def test_every_part_of_definitions_occurs() -> None:
    parts = {part for v in versions() for part in v}
    assert parts == {
        *("name", "served", "storage", "schema", "subresources", "selectableFields"),
        *("additionalPrinterColumns", "deprecated", "deprecationWarning"),
    }
    columns = [col for v in versions() for col in v.get("additionalPrinterColumns", [])]
    assert {col["type"] for col in columns} == {"string", "integer", "number", "boolean", "date"}
    assert {key for col in columns for key in col} == {
        *("name", "type", "format", "jsonPath", "priority", "description")
    }
    assert {s for v in versions() for s in v.get("subresources", {})} == {"status", "scale"}
    assert {c.crd["spec"]["scope"] for c in COLLECTION} == {"Namespaced", "Cluster"}
    names = {key for c in COLLECTION for key in c.crd["spec"]["names"]}
    assert names == {"plural", "singular", "kind", "listKind", "shortNames", "categories"}


def test_every_part_of_rules_occurs() -> None:
    assert {key for r in RULES for key in r} == {
        *("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
    }
    assert {r["reason"] for r in RULES if "reason" in r} == {
        f"FieldValue{reason}" for reason in ("Invalid", "Required", "Forbidden", "Duplicate")
    }
    assert any("oldSelf" in r["rule"] and "optionalOldSelf" not in r for r in RULES)


def test_every_function_of_the_rule_language_occurs() -> None:
    wanted = words("""
        has all exists exists_one existsOne filter map
        transformList transformMap transformMapEntry
        size type string int uint double bytes dyn matches contains startsWith endsWith
        charAt indexOf lastIndexOf lowerAscii upperAscii replace split join substring trim
        reverse format strings.quote find findAll
        isSorted sum min max slice flatten distinct sort sortBy lists.range
        sets.contains sets.intersects sets.equivalent
        isQuantity quantity sign isInteger asInteger asApproximateFloat add sub compareTo
        isGreaterThan isLessThan
        isSemver semver major minor patch
        isIP ip ip.isCanonical family isUnspecified isLoopback isLinkLocalUnicast
        isLinkLocalMulticast isGlobalUnicast
        isCIDR cidr containsIP containsCIDR prefixLength masked
        isURL url getScheme getHost getHostname getPort getEscapedPath getQuery
        validate format.named format.dns1123Label format.dns1123Subdomain format.dns1035Label
        format.dns1123LabelPrefix format.dns1123SubdomainPrefix format.dns1035LabelPrefix
        format.qualifiedName format.labelValue format.uri format.uuid format.byte format.date
        format.datetime
        duration timestamp getFullYear getMonth getDate getDayOfMonth getDayOfWeek
        getDayOfYear getHours getMinutes getSeconds getMilliseconds
        optional.of optional.ofNonZeroValue optional.none hasValue value or orValue
        optMap optFlatMap
    """)
    texts = [r[key] for r in RULES for key in ("rule", "messageExpression") if key in r]
    called = set()
    for text in texts:
        for name in re.findall(r"[\w.]+(?=\()", text):
            space, _, last = name.rpartition(".")
            called |= {last, f"{space.rpartition('.')[2]}.{last}"}
    assert wanted - called == set()
    two_variables = re.compile(r"\.(all|exists|existsOne)\(\w+, \w+, ")
    assert {m for text in texts for m in two_variables.findall(text)} == {
        *("all", "exists", "existsOne")
    }
    assert any("[?" in text for text in texts)
    assert any(".?" in text for text in texts)
