# SPDX-License-Identifier: Apache-2.0
"""kubectl create, apply, patch, delete and the like, with a real kubectl."""

import base64
import json
from pathlib import Path
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


def get(k: Kubectl, what: str) -> Any:
    return k("get", what, "-o", "json").json()


# -- create


def test_create_supports_many_kinds(k: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("from a file")
    k("create", "configmap", "c", "--from-literal=a=b", f"--from-file={tmp_path / 'file.txt'}")
    assert get(k, "cm/c")["data"] == {"a": "b", "file.txt": "from a file"}
    k("create", "secret", "generic", "s", "--from-literal=p=q")
    assert base64.b64decode(get(k, "secret/s")["data"]["p"]) == b"q"
    k("create", "serviceaccount", "a")
    k("create", "role", "r", "--verb=get,list", "--resource=configmaps,crontabs.stable.example.com")
    assert [r["apiGroups"] for r in get(k, "role/r")["rules"]] == [[""], ["stable.example.com"]]
    k("create", "rolebinding", "b", "--role=r", f"--serviceaccount={k.namespace}:a", "--user=u")
    assert [s["kind"] for s in get(k, "rolebinding/b")["subjects"]] == ["User", "ServiceAccount"]
    k("create", "quota", "q", "--hard=configmaps=7,secrets=3")
    assert get(k, "quota/q")["spec"]["hard"] == {"configmaps": "7", "secrets": "3"}


def test_create_supports_cluster_scoped_kinds(k: Kubectl) -> None:
    name = f"{k.namespace}-made"
    k("create", "namespace", name)
    assert get(k, f"ns/{name}")["status"]["phase"] == "Active"
    k("create", "clusterrole", name, "--verb=get", "--non-resource-url=/metrics")
    k("create", "clusterrolebinding", name, f"--clusterrole={name}", "--group=g")
    assert get(k, f"clusterrolebinding/{name}")["roleRef"]["name"] == name


def test_created_token_authenticates(k: Kubectl, tmp_path: Path) -> None:
    k("create", "serviceaccount", "robot")
    token = k("create", "token", "robot", "--duration=20m").out.strip()
    config = yaml.safe_load(k.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    robot = k.as_user(tmp_path / "config")
    who = robot("auth", "whoami", "-o", "json").json()["status"]["userInfo"]
    assert who["username"] == f"system:serviceaccount:{k.namespace}:robot"
    assert robot.attempt("get", "cm").code == 1
    k("create", "role", "r", "--verb=get,list", "--resource=configmaps")
    k("create", "rolebinding", "b", "--role=r", f"--serviceaccount={k.namespace}:robot")
    assert robot("get", "cm", "-o", "name").lines == ["configmap/kube-root-ca.crt"]


def test_create_rejects_existing_and_invalid_objects(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=manifest(config_map("c")))
    again = k.attempt("create", "-f", "-", stdin=manifest(config_map("c")))
    assert "Error from server (AlreadyExists)" in again.err
    assert 'configmaps "c" already exists' in again.err
    bad = k.attempt("create", "configmap", "Bad_Name")
    assert 'The ConfigMap "Bad_Name" is invalid' in bad.err or "metadata.name" in bad.err
    wrong = crontab("w", replicas=99, image="broken")
    rejected = k.attempt("create", "-f", "-", stdin=json.dumps(wrong)).err
    assert 'The CronTab "w" is invalid' in rejected
    assert "spec.replicas: Invalid value: 99" in rejected
    unknown = crontab("w", colour="red")
    rejected = k.attempt("create", "-f", "-", stdin=json.dumps(unknown)).err
    assert 'strict decoding error: unknown field "spec.colour"' in rejected
    k("create", "--validate=ignore", "-f", "-", stdin=json.dumps(unknown))
    warned = k(
        "create", "--validate=warn", "-f", "-", stdin=json.dumps(unknown | crontab("x", hue=1))
    )
    assert 'Warning: unknown field "spec.hue"' in warned.err


def test_create_reads_lists(k: Kubectl) -> None:
    items = [config_map("one"), crontab("two")]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert k("create", "-f", "-", stdin=text).lines == [
        "configmap/one created",
        "crontab.stable.example.com/two created",
    ]
    listed = k("get", "cm,ct", "-o", "json").out
    assert k("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=listed).code == 0


def test_create_dry_run(k: Kubectl) -> None:
    out = k("create", "cm", "c", "--dry-run=server", "-o", "json").json()
    assert out["metadata"]["uid"]
    assert k("create", "cm", "c", "--dry-run=client", "-o", "name").out == "configmap/c\n"
    assert k("get", "cm", "c", "--ignore-not-found").out == ""


# -- apply


def test_apply_creates_configures_and_prunes_fields(k: Kubectl) -> None:
    first = config_map("c", {"a": "1", "b": "2"})
    assert k("apply", "-f", "-", stdin=manifest(first)).out == "configmap/c created\n"
    assert k("apply", "-f", "-", stdin=manifest(first)).out == "configmap/c unchanged\n"
    k("patch", "cm", "c", "--type=merge", "-p", '{"data":{"mine":"kept"}}')
    second = config_map("c", {"a": "9"})
    assert k("apply", "-f", "-", stdin=manifest(second)).out == "configmap/c configured\n"
    assert get(k, "cm/c")["data"] == {"a": "9", "mine": "kept"}
    last = k("apply", "view-last-applied", "cm/c", "-o", "json").json()
    assert last["data"] == {"a": "9"}


def test_apply_of_custom_resources_merges_on_the_client(k: Kubectl) -> None:
    steps = [{"name": "one", "command": "a"}]
    k("apply", "-f", "-", stdin=manifest(crontab("job", image="x", steps=steps)))
    k("apply", "-f", "-", stdin=manifest(crontab("job", steps=steps)))
    spec = get(k, "ct/job")["spec"]
    assert "image" not in spec
    assert spec["steps"] == steps


def test_apply_server_side_tracks_owners(k: Kubectl) -> None:
    mine = json.dumps(config_map("c", {"a": "1"}))
    out = k("apply", "--server-side", "-f", "-", stdin=mine).out
    assert out == "configmap/c serverside-applied\n"
    theirs = json.dumps(config_map("c", {"a": "2"}))
    command = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    conflict = k.attempt(*command, stdin=theirs)
    assert conflict.code == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in conflict.err
    k(*command, "--force-conflicts", stdin=theirs)
    assert get(k, "cm/c")["data"] == {"a": "2"}
    managers = k("get", "cm", "c", "--show-managed-fields", "-o", "json").json()
    entries = managers["metadata"]["managedFields"]
    assert [(e["manager"], e["operation"]) for e in entries] == [("other", "Apply")]


def test_apply_server_side_takes_over_from_the_client_side(k: Kubectl) -> None:
    body = json.dumps(config_map("c", {"a": "1", "b": "2"}))
    k("apply", "-f", "-", stdin=body)
    less = json.dumps(config_map("c", {"a": "1"}))
    k("apply", "--server-side", "-f", "-", stdin=less)
    assert get(k, "cm/c")["data"] == {"a": "1"}


def test_apply_prunes_objects_that_are_no_longer_listed(k: Kubectl) -> None:
    both = manifest(*(config_map(n, labels={"set": "x"}) for n in ("one", "two")))
    allow = "--prune-allowlist=core/v1/ConfigMap"
    k("apply", "--prune", "-l", "set=x", allow, "-f", "-", stdin=both)
    one = manifest(config_map("one", labels={"set": "x"}))
    k("apply", "--prune", "-l", "set=x", allow, "-f", "-", stdin=one)
    assert k("get", "cm", "-l", "set=x", "-o", "name").lines == ["configmap/one"]


def test_diff_shows_what_apply_would_change(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=manifest(config_map("c", {"a": "1"})))
    same = k.attempt("diff", "-f", "-", stdin=manifest(config_map("c", {"a": "1"})))
    assert (same.code, same.out) == (0, "")
    for extra in ((), ("--server-side", "--force-conflicts")):
        change = manifest(config_map("c", {"a": "2"}))
        differs = k.attempt("diff", *extra, "-f", "-", stdin=change)
        assert differs.code == 1
        assert '-  a: "1"\n+  a: "2"' in differs.out
    assert get(k, "cm/c")["data"] == {"a": "1"}


# -- edit, patch, label, annotate, replace, scale


def test_edit_saves_the_edited_text(k: Kubectl, tmp_path: Path) -> None:
    k("create", "-f", "-", stdin=manifest(config_map("c", {"a": "before"})))
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i s/before/after/ "$1"\n')
    editor.chmod(0o755)
    edited = k.with_environment(KUBE_EDITOR=str(editor))("edit", "cm", "c")
    assert edited.out == "configmap/c edited\n"
    assert get(k, "cm/c")["data"] == {"a": "after"}
    unchanged = k.with_environment(KUBE_EDITOR="true").attempt("edit", "cm", "c")
    assert "Edit cancelled, no changes made" in unchanged.err + unchanged.out


def test_edit_status_of_a_custom_resource(k: Kubectl, tmp_path: Path) -> None:
    k("create", "-f", "-", stdin=manifest(crontab("job")))
    k(
        "patch",
        "ct",
        "job",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"replicas":4}}',
    )
    assert get(k, "ct/job")["status"] == {"replicas": 4}


@pytest.mark.parametrize(
    ("kind", "patch", "data"),
    [
        pytest.param("merge", '{"data":{"a":null,"c":"3"}}', {"b": "2", "c": "3"}, id="merge"),
        pytest.param("strategic", '{"data":{"a":"9"}}', {"a": "9", "b": "2"}, id="strategic"),
        pytest.param("json", '[{"op":"remove","path":"/data/b"}]', {"a": "1"}, id="json"),
    ],
)
def test_patch_of_each_type(kind: str, patch: str, data: dict[str, str], k: Kubectl) -> None:
    k("create", "-f", "-", stdin=manifest(config_map("c", {"a": "1", "b": "2"})))
    assert k("patch", "cm", "c", f"--type={kind}", "-p", patch).out == "configmap/c patched\n"
    assert get(k, "cm/c")["data"] == data
    assert k("patch", "cm", "c", f"--type={kind}", "-p", "[]" if kind == "json" else "{}").out == (
        "configmap/c patched (no change)\n"
    )


def test_patch_of_a_custom_resource_cannot_be_strategic(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=manifest(crontab("job")))
    rejected = k.attempt("patch", "ct", "job", "-p", '{"spec":{"replicas":2}}')
    assert "application/strategic-merge-patch+json is not supported" in rejected.err
    k("patch", "ct", "job", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    assert get(k, "ct/job")["spec"]["replicas"] == 2


def test_label_and_annotate(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=manifest(config_map("c"), config_map("d")))
    k("label", "cm", "c", "d", "tier=one", "zone=a")
    rejected = k.attempt("label", "cm", "c", "tier=two")
    assert "already has a value (one), and --overwrite is false" in rejected.err
    k("label", "cm", "c", "tier=two", "--overwrite")
    k("label", "cm", "-l", "tier=two", "zone-")
    assert get(k, "cm/c")["metadata"]["labels"] == {"tier": "two"}
    k("annotate", "cm", "d", "note=two words", "other=x")
    k("annotate", "cm", "d", "other-")
    assert get(k, "cm/d")["metadata"]["annotations"] == {"note": "two words"}
    bad = k.attempt("label", "cm", "c", "tier=not/allowed")
    assert "a valid label must be an empty string or consist of" in bad.err


def test_replace_requires_object_and_version(k: Kubectl) -> None:
    missing = k.attempt("replace", "-f", "-", stdin=json.dumps(config_map("c")))
    assert 'configmaps "c" not found' in missing.err
    k("create", "-f", "-", stdin=json.dumps(config_map("c", {"a": "1"})))
    old = k("get", "cm", "c", "-o", "json").out
    k("replace", "-f", "-", stdin=json.dumps(config_map("c", {"a": "2"})))
    stale = k.attempt("replace", "-f", "-", stdin=old)
    assert "the object has been modified" in stale.err
    before = get(k, "cm/c")["metadata"]["uid"]
    k("replace", "--force", "-f", "-", stdin=json.dumps(config_map("c", {"a": "3"})))
    after = get(k, "cm/c")
    assert (after["data"], after["metadata"]["uid"] != before) == ({"a": "3"}, True)


def test_scale_of_a_custom_resource(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=manifest(crontab("job", replicas=1)))
    assert k("scale", "ct", "job", "--replicas=5").out == "crontab.stable.example.com/job scaled\n"
    assert get(k, "ct/job")["spec"]["replicas"] == 5
    wrong = k.attempt("scale", "ct", "job", "--current-replicas=3", "--replicas=4")
    assert "Expected replicas to be 3, was 5" in wrong.err
    rejected = k.attempt("scale", "ct", "job", "--replicas=50")
    assert "spec.replicas" in rejected.err
    assert get(k, "ct/job")["spec"]["replicas"] == 5


# -- delete and wait


def test_delete_by_name_label_file_and_all(k: Kubectl) -> None:
    names = [config_map(n, labels={"set": n}) for n in ("a", "b", "c", "d", "e")]
    k("create", "-f", "-", stdin=manifest(*names))
    assert k("delete", "cm", "a").out.startswith('configmap "a" deleted')
    k("delete", "cm", "-l", "set=b")
    k("delete", "-f", "-", stdin=manifest(config_map("c")))
    k("delete", "cm", "--field-selector", "metadata.name=d")
    assert k("get", "cm", "-l", "set", "-o", "name").lines == ["configmap/e"]
    k("delete", "cm", "-l", "set", "--now")
    missing = k.attempt("delete", "cm", "a")
    assert 'Error from server (NotFound): configmaps "a" not found' in missing.err
    k("delete", "cm", "a", "--ignore-not-found")
    k("delete", "crontabs", "--all")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_each_cascade(cascade: str, k: Kubectl) -> None:
    k("create", "-f", "-", stdin=manifest(crontab("owner")))
    uid = get(k, "ct/owner")["metadata"]["uid"]
    reference = {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "name": "owner",
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    k("create", "-f", "-", stdin=manifest(config_map("owned", ownerReferences=[reference])))
    k("delete", "ct", "owner", f"--cascade={cascade}", "--wait=true", "--timeout=20s")
    if cascade == "orphan":
        assert "ownerReferences" not in get(k, "cm/owned")["metadata"]
    else:
        k("wait", "--for=delete", "cm/owned", "--timeout=20s")
        assert k("get", "cm", "owned", "--ignore-not-found").out == ""


def test_delete_waits_for_finalizers(k: Kubectl) -> None:
    held = config_map("held", finalizers=["example.com/hold"])
    k("create", "-f", "-", stdin=manifest(held))
    late = k.attempt("delete", "cm", "held", "--timeout=1s")
    assert (late.code, "timed out waiting" in late.err) == (1, True)
    assert get(k, "cm/held")["metadata"]["deletionTimestamp"]
    release = '[{"op":"remove","path":"/metadata/finalizers"}]'
    with k.start("delete", "cm", "held", "--timeout=60s") as deleting:
        k("patch", "cm", "held", "--type=json", "-p", release)
        _, err = deleting.communicate()
    assert deleting.returncode == 0 or "not found" in err
    assert k("delete", "cm", "held", "--ignore-not-found", "--wait=false").out == ""


def test_delete_of_a_namespace_deletes_its_content(k: Kubectl) -> None:
    name = f"{k.namespace}-gone"
    k("create", "namespace", name)
    k("create", "cm", "c", "-n", name)
    k("delete", "namespace", name, "--timeout=30s")
    assert k("get", "ns", name, "--ignore-not-found").out == ""
    rejected = k.attempt("delete", "ns", "default")
    assert 'namespaces "default" is forbidden: this namespace may not be deleted' in rejected.err


def test_wait_for_conditions_values_creation_and_deletion(k: Kubectl) -> None:
    with k.start("wait", "--for=create", "ct/job", "--timeout=60s") as waiting:
        k("create", "-f", "-", stdin=manifest(crontab("job")))
        assert waiting.wait() == 0
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "replicas": 2}}
    with k.start("wait", "ct/job", "--for=condition=Ready", "--timeout=60s") as waiting:
        k("patch", "ct", "job", "--subresource=status", "--type=merge", "-p", json.dumps(status))
        assert waiting.wait() == 0
    k("wait", "ct/job", "--for=jsonpath={.status.replicas}=2", "--timeout=60s")
    k("wait", "crd/crontabs.stable.example.com", "--for=condition=Established", "--timeout=60s")
    with k.start("wait", "--for=delete", "ct/job", "--timeout=60s") as waiting:
        k("delete", "ct", "job")
        assert waiting.wait() == 0
    late = k.attempt("wait", "cm/kube-root-ca.crt", "--for=jsonpath={.data.none}=1", "--timeout=1s")
    assert late.code == 1


# -- definitions and rules


def test_definition_is_installed_and_removed(k: Kubectl) -> None:
    group = f"{k.namespace}.example.com"
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"lamps.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    k("apply", "-f", "-", stdin=json.dumps(definition))
    k("wait", f"crd/lamps.{group}", "--for=condition=Established", "--timeout=20s")
    lamp = {"apiVersion": f"{group}/v1", "kind": "Lamp", "metadata": {"name": "desk"}, "watts": 5}
    k("create", "-f", "-", stdin=json.dumps(lamp))
    assert get(k, f"lamps.{group}/desk")["watts"] == 5
    k("delete", f"crd/lamps.{group}", "--timeout=20s")
    gone = k.attempt("get", f"lamps.{group}")
    assert gone.code == 1


def test_auth_reconcile_adds_rules(k: Kubectl) -> None:
    def role(*verbs: str) -> str:
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
        return json.dumps(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "r", "namespace": k.namespace},
                "rules": rules,
            }
        )

    assert "reconciled" in k("auth", "reconcile", "-f", "-", stdin=role("get")).out
    k("auth", "reconcile", "-f", "-", stdin=role("list"))
    verbs = [v for rule in get(k, "role/r")["rules"] for v in rule["verbs"]]
    assert sorted(verbs) == ["get", "list"]


def test_privilege_escalation_is_rejected(k: Kubectl, server: LiveServer) -> None:
    k("create", "role", "roles", "--verb=create,get", "--resource=roles")
    k("create", "rolebinding", "roles", "--role=roles", "--user=nobody")
    nobody = k.as_user(server.kubeconfig_of("nobody"))
    rejected = nobody.attempt("create", "role", "more", "--verb=get", "--resource=secrets")
    assert "is attempting to grant RBAC permissions not currently held" in rejected.err
