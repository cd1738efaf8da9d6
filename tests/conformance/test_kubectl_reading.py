# SPDX-License-Identifier: Apache-2.0
"""kubectl get, describe, explain and the like, with a real kubectl."""

import json
import re
import urllib.request
from typing import Any

import pytest
import yaml
from tests.conformance.conftest import Kubectl, manifest

from rdd.testing import LiveServer


def config_map(name: str, data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **meta},
        "data": data or {},
    }


def crontab(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "* * * * */5", **spec},
    }


@pytest.fixture
def zoo(k: Kubectl) -> Kubectl:
    """Return kubectl in a namespace with three config maps and a crontab."""
    objects = [
        config_map("ant", {"legs": "6"}, labels={"kind": "insect"}),
        config_map("bee", {"legs": "6", "wings": "4"}, labels={"kind": "insect", "flies": "yes"}),
        config_map("cat", {"legs": "4"}, labels={"kind": "mammal"}, annotations={"note": "purrs"}),
        crontab("nightly", image="backup", replicas=3),
    ]
    k("create", "-f", "-", stdin=manifest(*objects))
    return k


# -- get, in every form


def test_get_prints_the_columns_of_the_server(zoo: Kubectl) -> None:
    table = zoo("get", "configmaps", "-l", "kind").lines
    assert table[0].split() == ["NAME", "DATA", "AGE"]
    assert [row.split()[:2] for row in table[1:]] == [["ant", "1"], ["bee", "2"], ["cat", "1"]]


def test_get_wide_prints_columns_of_low_priority(zoo: Kubectl) -> None:
    narrow = zoo("get", "crontabs").lines
    assert narrow[0].split() == ["NAME", "SPEC", "REPLICAS", "AGE"]
    wide = zoo("get", "ct", "-o", "wide").lines
    assert wide[0].split() == ["NAME", "SPEC", "REPLICAS", "IMAGE", "AGE"]
    assert wide[1].split("   ")[0] == "nightly"
    assert "backup" in wide[1]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_get_gives_whole_objects(form: str, zoo: Kubectl) -> None:
    text = zoo("get", "cm", "bee", "-o", form).out
    obj = json.loads(text) if form == "json" else yaml.safe_load(text)
    assert obj["data"] == {"legs": "6", "wings": "4"}
    assert obj["kind"] == "ConfigMap"
    assert "managedFields" not in obj["metadata"]
    text = zoo("get", "cm", "bee", "-o", form, "--show-managed-fields").out
    assert "kubectl-create" in text


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(["-o", "name"], "configmap/cat\n", id="name"),
        pytest.param(["-o", "jsonpath={.data.legs}"], "4", id="jsonpath"),
        pytest.param(["-o", "jsonpath={.metadata.labels}"], '{"kind":"mammal"}', id="map"),
        pytest.param(["-o", "go-template={{.data.legs}}"], "4", id="go-template"),
        pytest.param(
            ["-o", "custom-columns=N:.metadata.name,L:.data.legs"],
            "N     L\ncat   4\n",
            id="columns",
        ),
        pytest.param(["--no-headers", "-o", "custom-columns=N:.metadata.name"], "cat\n", id="bare"),
    ],
)
def test_get_of_one_object_in_other_forms(args: list[str], expected: str, zoo: Kubectl) -> None:
    assert zoo("get", "cm", "cat", *args).out == expected


@pytest.mark.parametrize(
    ("args", "names"),
    [
        pytest.param(["-l", "kind=insect"], ["ant", "bee"], id="label"),
        pytest.param(["-l", "kind in (mammal),!flies"], ["cat"], id="set selector"),
        pytest.param(
            ["-l", "kind", "--field-selector", "metadata.name!=bee"], ["ant", "cat"], id="field"
        ),
        pytest.param(
            ["-l", "kind", "--sort-by", ".metadata.name"], ["ant", "bee", "cat"], id="sorted"
        ),
        pytest.param(["-l", "kind", "--chunk-size", "1"], ["ant", "bee", "cat"], id="pages"),
        pytest.param(["ant", "cat"], ["ant", "cat"], id="by name"),
    ],
)
def test_get_selects(args: list[str], names: list[str], zoo: Kubectl) -> None:
    found = zoo("get", "cm", "-o", "name", *args).lines
    assert found == [f"configmap/{name}" for name in names]


def test_get_sorts_by_any_field(zoo: Kubectl) -> None:
    rows = zoo("get", "cm", "-l", "kind", "--sort-by", "{.data.legs}", "--no-headers").lines
    assert rows[0].startswith("cat")


def test_get_of_all_namespaces_has_a_namespace_column(zoo: Kubectl) -> None:
    table = zoo("get", "cm", "-A", "-l", "kind=mammal").lines
    assert table[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert [zoo.namespace, "cat"] in [row.split()[:2] for row in table[1:]]


def test_get_shows_labels(zoo: Kubectl) -> None:
    row = zoo("get", "cm", "bee", "--show-labels", "-L", "flies", "--no-headers").lines[0]
    assert row.split()[-2:] == ["yes", "flies=yes,kind=insect"]


def test_get_all_lists_the_category(zoo: Kubectl) -> None:
    assert zoo("get", "all", "-o", "name").lines == ["crontab.stable.example.com/nightly"]


def test_get_of_several_resources_prefixes_their_kinds(zoo: Kubectl) -> None:
    out = zoo("get", "cm/ant", "ct/nightly", "-o", "name").lines
    assert out == ["configmap/ant", "crontab.stable.example.com/nightly"]


def test_get_from_files(zoo: Kubectl) -> None:
    text = manifest(config_map("ant"), config_map("bee"))
    assert zoo("get", "-f", "-", "-o", "name", stdin=text).lines == [
        "configmap/ant",
        "configmap/bee",
    ]


def test_get_of_missing_objects_is_an_error(zoo: Kubectl) -> None:
    missing = zoo.attempt("get", "cm", "dog")
    assert (missing.code, missing.err) == (
        1,
        'Error from server (NotFound): configmaps "dog" not found\n',
    )
    assert zoo("get", "cm", "dog", "--ignore-not-found").out == ""
    unknown = zoo.attempt("get", "poems")
    assert 'the server doesn\'t have a resource type "poems"' in unknown.err
    bad = zoo.attempt("get", "cm", "--field-selector", "data.legs=4")
    assert "field label not supported" in bad.err or "not a known field selector" in bad.err


def test_get_by_version_and_group(zoo: Kubectl) -> None:
    out = zoo("get", "crontabs.v1.stable.example.com", "nightly", "-o", "json").json()
    assert out["apiVersion"] == "stable.example.com/v1"
    old = zoo("get", "crontabs.v1beta1.stable.example.com", "nightly", "-o", "json")
    assert old.json()["apiVersion"] == "stable.example.com/v1beta1"
    assert "Warning: stable.example.com/v1beta1 CronTab is deprecated" in old.err


def test_get_selects_custom_fields(zoo: Kubectl) -> None:
    zoo("create", "-f", "-", stdin=manifest(crontab("other", image="x")))
    out = zoo("get", "ct", "--field-selector", "spec.image=backup", "-o", "name")
    assert out.lines == ["crontab.stable.example.com/nightly"]


def test_get_of_a_subresource(zoo: Kubectl) -> None:
    scale = zoo("get", "ct", "nightly", "--subresource=scale", "-o", "json").json()
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 3)


# -- watch


def test_get_watches(zoo: Kubectl) -> None:
    command = ("get", "cm", "-w", "-l", "kind=insect", "--output-watch-events", "--no-headers")
    with zoo.start(*command) as process:
        assert process.stdout is not None
        lines = process.stdout
        seen = [lines.readline().split()[:2] for _ in range(2)]
        assert seen == [["ADDED", "ant"], ["ADDED", "bee"]]
        zoo("label", "cm", "cat", "kind=insect", "--overwrite")
        assert lines.readline().split()[:2] == ["ADDED", "cat"]
        zoo("annotate", "cm", "bee", "x=y")
        assert lines.readline().split()[:2] == ["MODIFIED", "bee"]
        zoo("delete", "cm", "ant")
        assert lines.readline().split()[:2] == ["DELETED", "ant"]


def test_get_watch_only_omits_existing_objects(zoo: Kubectl) -> None:
    with zoo.start("get", "ct", "--watch-only", "-o", "name", "-v=6") as process:
        assert process.stdout is not None
        process.read_until(lambda line: "watch=true" in line, stream=process.stderr)
        zoo("create", "-f", "-", stdin=manifest(crontab("later")))
        assert process.stdout.readline() == "crontab.stable.example.com/later\n"


# -- describe, explain, discovery


def test_describe_shows_data_and_events(zoo: Kubectl) -> None:
    uid = zoo("get", "cm", "cat", "-o", "jsonpath={.metadata.uid}").out
    about = {"kind": "ConfigMap", "apiVersion": "v1", "name": "cat", "uid": uid}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "cat.1"},
        "involvedObject": {**about, "namespace": zoo.namespace},
        "reason": "Purring",
        "message": "the cat purrs",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
        "source": {"component": "ear"},
    }
    zoo("create", "-f", "-", stdin=manifest(event))
    out = zoo("describe", "cm", "cat").out
    assert re.search(r"Name:\s+cat\n", out)
    assert re.search(r"Labels:\s+kind=mammal\n", out)
    assert re.search(r"Annotations:\s+note: purrs\n", out)
    assert "legs:\n----\n4\n" in out
    assert re.search(r"Normal\s+Purring\s+\S+\s+ear\s+the cat purrs", out)
    events = zoo("events", "--for", "configmap/cat", "--no-headers").lines
    assert [row.split()[1:4] for row in events] == [["Normal", "Purring", "ConfigMap/cat"]]
    listed = zoo("get", "events", "--field-selector", "reason=Purring", "--no-headers").lines
    assert listed[0].split()[1:4] == ["Normal", "Purring", "configmap/cat"]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        pytest.param("crontab/nightly", r"Cron Spec:\s+\* \* \* \* \*/5", id="custom"),
        pytest.param("namespace/default", r"Status:\s+Active", id="namespace"),
        pytest.param("serviceaccount/default", r"Image pull secrets:\s+<none>", id="account"),
        pytest.param("clusterrole/cluster-admin", r"\*\.\*\s+\[\]\s+\[\]\s+\[\*\]", id="role"),
        pytest.param("clusterrolebinding/cluster-admin", r"Group\s+system:masters", id="binding"),
        pytest.param("crd/crontabs.stable.example.com", r"Kind:\s+CronTab", id="definition"),
    ],
)
def test_describe_of_other_kinds(what: str, expected: str, zoo: Kubectl) -> None:
    assert re.search(expected, zoo("describe", what).out)


def test_describe_masks_secrets(k: Kubectl) -> None:
    k("create", "secret", "generic", "pin", "--from-literal=pin=1234")
    out = k("describe", "secret", "pin").out
    assert "pin:  4 bytes" in out
    assert "1234" not in out


def test_explain_reads_the_schema(k: Kubectl) -> None:
    out = k("explain", "configmap").out
    assert re.search(r"KIND:\s+ConfigMap\nVERSION:\s+v1\n", out)
    assert re.search(r"immutable\s+<boolean>", out)
    assert re.search(r"FIELD: labels <map\[string\]string>", k("explain", "cm.metadata.labels").out)
    custom = k("explain", "crontab.spec").out
    assert re.search(r"GROUP:\s+stable.example.com", custom)
    assert "What should be run." in custom
    assert re.search(r"cronSpec\s+<string> -required-\n\s+When it runs, in five fields", custom)


def test_explain_recursively_names_every_field(k: Kubectl) -> None:
    out = k("explain", "ct", "--recursive").out
    for field in ("cronSpec", "replicas", "steps", "command", "conditions", "ownerReferences"):
        assert re.search(rf"^\s+{field}\s+<", out, re.M), field


def test_explain_reads_the_old_schema_too(k: Kubectl) -> None:
    out = k("explain", "crontab.spec", "--output=plaintext-openapiv2").out
    assert re.search(r"VERSION:\s+stable.example.com/v1", out)
    assert re.search(r"cronSpec\s+<string> -required-\n\s+When it runs, in five fields", out)
    assert "binaryData" in k("explain", "cm", "--output=plaintext-openapiv2").out


def test_explain_of_an_unknown_field_fails(k: Kubectl) -> None:
    assert 'field "colour" does not exist' in k.attempt("explain", "cm.colour").err


def test_api_resources_lists_everything_with_its_verbs(k: Kubectl) -> None:
    rows = [row.split() for row in k("api-resources", "--no-headers").lines]
    by_name = {(row[0], row[-3]): row for row in rows}
    assert by_name[("configmaps", "v1")][1] == "cm"
    assert by_name[("crontabs", "stable.example.com/v1")] == [
        "crontabs", "ct", "stable.example.com/v1", "true", "CronTab",
    ]  # fmt: skip
    wide = k("api-resources", "--api-group=stable.example.com", "-o", "wide", "--no-headers").out
    assert "create,delete,deletecollection,get,list,patch,update,watch" in wide.replace(
        " ", ""
    ) or ("delete,deletecollection,get,list,patch,create,update,watch" in wide)
    assert k("api-resources", "--categories=all", "-o", "name").lines == [
        "crontabs.stable.example.com"
    ]


def test_api_versions_and_server_version(k: Kubectl) -> None:
    versions = k("api-versions").lines
    assert {"v1", "rbac.authorization.k8s.io/v1", "stable.example.com/v1beta1"} <= set(versions)
    version = k("version", "-o", "json").json()["serverVersion"]
    assert (version["major"], version["minor"]) == ("1", "36")


def test_get_raw_reads_any_path(k: Kubectl) -> None:
    assert k("get", "--raw", "/healthz").out == "ok"
    assert k("get", "--raw", "/readyz?verbose").out.endswith("readyz check passed\n")
    assert k("get", "--raw", "/api").json()["versions"] == ["v1"]
    assert "apiserver_request" in k("get", "--raw", "/metrics").out
    assert "NotFound" in k.attempt("get", "--raw", "/nowhere").err


def test_proxy_forwards_requests(zoo: Kubectl) -> None:
    with zoo.start("proxy", "--port=0") as process:
        assert process.stdout is not None
        match = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert match
        url = f"http://127.0.0.1:{match[1]}/api/v1/namespaces/{zoo.namespace}/configmaps/cat"
        with urllib.request.urlopen(url) as answer:
            assert json.load(answer)["data"] == {"legs": "4"}


def test_cluster_info_requires_services(k: Kubectl) -> None:
    # It lists labelled Services, a kind that this server does not have.
    assert 'doesn\'t have a resource type "services"' in k.attempt("cluster-info").err


def test_completion_proposes_existing_names(zoo: Kubectl) -> None:
    names = zoo("__complete", "get", "configmaps", "").lines
    assert {"ant", "bee", "cat"} <= set(names)
    kinds = zoo("__complete", "get", "cront").lines
    assert "crontabs.stable.example.com" in kinds


# -- identity


def test_can_i_and_whoami(k: Kubectl, server: LiveServer) -> None:
    assert k("auth", "can-i", "create", "crontabs").out == "yes\n"
    reader = k.as_user(server.kubeconfig_of("reader"))
    denied = reader.attempt("auth", "can-i", "create", "crontabs")
    assert (denied.code, denied.out) == (1, "no\n")
    who = reader("auth", "whoami", "-o", "json").json()["status"]["userInfo"]
    assert who["username"] == "reader"
    assert {"readers", "system:authenticated"} <= set(who["groups"])
    as_other = k("auth", "whoami", "--as=jo", "--as-group=g", "-o", "json").json()
    assert as_other["status"]["userInfo"]["username"] == "jo"
    forbidden = reader.attempt("get", "secrets")
    assert forbidden.err == (
        'Error from server (Forbidden): secrets is forbidden: User "reader" cannot list resource '
        f'"secrets" in API group "" in the namespace "{k.namespace}"\n'
    )
    k("create", "rolebinding", "readers", "--clusterrole=view", "--group=readers")
    assert reader("auth", "can-i", "list", "configmaps").out == "yes\n"
    rules = reader("auth", "can-i", "--list", "--no-headers").out
    assert "configmaps" in rules
    assert reader("get", "cm", "-o", "name").lines == ["configmap/kube-root-ca.crt"]
