# SPDX-License-Identifier: Apache-2.0
"""The real kubectl and the built-in client print the same output for the same commands.

All commands run through `rdd ctl` against a real daemon, which the first call
starts. Each test has a namespace of its own, so that both clients start from the
same state. A pattern matches output that differs between versions of kubectl.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.programs import run_program, start_program

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, shortNames: [wd], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Phase, type: string, jsonPath: .status.phase, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget is a thing that has a size.
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [size]
            properties:
              size: {type: integer, description: How big it is.}
              replicas: {type: integer}
              mode: {type: string, enum: [a, b], default: a}
              parts: {type: array, items: {type: object, properties: {name: {type: string}}}}
          status:
            type: object
            properties:
              phase: {type: string}
              replicas: {type: integer}
              conditions:
                type: array
                items:
                  type: object
                  properties:
                    type: {type: string}
                    status: {type: string}
                    reason: {type: string}
                    lastTransitionTime: {type: string, format: date-time}
"""
WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: w1}
spec: {size: 3, parts: [{name: a}, {name: b}]}
"""
DELETED = r'"{name}" deleted( from \S+ namespace)?\n'


def config_map(name: str, **data: str) -> str:
    lines = "".join(f"\n  {key}: {value!r}" for key, value in data.items())
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
    return text + (f"data:{lines}\n" if data else "")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Ctl:
    """`rdd ctl` with one of the clients, in one namespace."""

    script: Path
    env: Mapping[str, str]
    namespace: str = ""

    def __call__(self, *words: str, input: str = "") -> Outcome:
        context = ["-n", self.namespace] if self.namespace else []
        done = run_program(
            [str(self.script), "ctl", *words, *context], env=dict(self.env), input=input
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def expect(
        self,
        *words: str,
        out: str | re.Pattern[str] = "",
        err: str | re.Pattern[str] = "",
        code: int = 0,
        input: str = "",
    ) -> None:
        got = self(*words, input=input)
        assert got.code == code, got
        for text, wanted in ((got.out, out), (got.err, err)):
            if isinstance(wanted, str):
                assert text == wanted
            else:
                assert wanted.fullmatch(text), text

    def text(self, *words: str, input: str = "") -> str:
        """Return the output of a command that must succeed."""
        got = self(*words, input=input)
        assert got.code == 0, got
        return got.out


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, rdd_script: Path) -> Iterator[Mapping[str, str]]:
    """Return the environment of a dedicated daemon; delete the daemon at the end."""
    directory = tmp_path_factory.mktemp("ctl-home")
    env = {
        "HOME": str(directory),
        "PATH": os.environ["PATH"],
        "NO_COLOR": "1",
        "RDD_INSTANCE": "ctl",
        "RDD_KUBECTL": "builtin",
        "KUBECONFIG": "/does/not/matter",
    }
    first = Ctl(rdd_script, env)
    first.expect("apply", "-f", "-", input=CRD, out=re.compile(".*created\n"))
    first.expect(
        *("wait", "crd/widgets.example.com", "--for=condition=Established", "--timeout=20s"),
        out="customresourcedefinition.apiextensions.k8s.io/widgets.example.com condition met\n",
    )
    yield env
    run_program([str(rdd_script), "svc", "delete"], env=env, check=True)


@pytest.fixture(params=["kubectl", "builtin"])
def anywhere(request: pytest.FixtureRequest, home: Mapping[str, str], rdd_script: Path) -> Ctl:
    """`rdd ctl` without a namespace."""
    which = request.param
    if which == "kubectl":
        which = str(request.getfixturevalue("kubectl"))
    return Ctl(rdd_script, {**home, "RDD_KUBECTL": which})


@pytest.fixture
def ctl(anywhere: Ctl, request: pytest.FixtureRequest) -> Ctl:
    """`rdd ctl` in a namespace that only this test uses."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:55].strip("-")
    name += f"-{abs(hash(request.node.name)) % 10000}"
    anywhere.expect("create", "namespace", name, out=f"namespace/{name} created\n")
    return Ctl(anywhere.script, anywhere.env, name)


# -- reading


def test_get_shows_tables(ctl: Ctl) -> None:
    ctl.text("create", "configmap", "one", "--from-literal=a=1", "--from-literal=b=2")
    ctl.text("create", "configmap", "three")
    ctl.text("label", "cm", "one", "app=x")
    table = ctl.text("get", "cm", "one", "three")
    assert re.fullmatch(r"NAME    DATA   AGE\none     2      \d+s\nthree   0      \d+s\n", table)
    assert re.fullmatch(
        r"one +2 +\d+s\nthree +0 +\d+s\n", ctl.text("get", "cm/one", "cm/three", "--no-headers")
    )
    labelled = ctl.text("get", "cm", "-l", "app=x", "-L", "app", "--show-labels")
    assert re.fullmatch(
        r"NAME   DATA   AGE   APP   LABELS\none    2      \d+s +x     app=x\n", labelled
    )


def test_get_of_several_types_names_the_kind(ctl: Ctl) -> None:
    ctl.text("apply", "-f", "-", input=config_map("a", x="1") + "---\n" + WIDGET)
    shown = ctl.text("get", "cm/a", "wd/w1")
    assert re.fullmatch(
        r"NAME          DATA   AGE\nconfigmap/a   1      \d+s\n\n"
        r"NAME                    SIZE\nwidget.example.com/w1   3\n",
        shown,
    )


def test_get_wide_and_custom_columns(ctl: Ctl) -> None:
    ctl.text("apply", "-f", "-", input=WIDGET)
    ctl.expect("get", "wd", out="NAME   SIZE\nw1     3\n")
    ctl.expect("get", "widgets", "-o", "wide", out="NAME   SIZE   PHASE\nw1     3      \n")
    assert ctl.text("get", "all").startswith("NAME ")
    ctl.expect(
        *("get", "wd", "-o", "custom-columns=N:.metadata.name,PARTS:.spec.parts[*].name,X:.nope"),
        out="N     PARTS   X\nw1    a,b     <none>\n",
    )


def test_get_in_json_and_yaml(ctl: Ctl) -> None:
    ctl.text("create", "-f", "-", input=config_map("a", text="<b> & 'c'"))
    shown = ctl.text("get", "cm", "a", "-o", "json")
    assert '\n    "data": {\n        "text": "\\u003cb\\u003e \\u0026 \'c\'"\n    },\n' in shown
    assert "managedFields" not in shown
    shown = ctl.text("get", "cm", "a", "-o", "yaml")
    assert shown.startswith(
        "apiVersion: v1\ndata:\n  text: <b> & 'c'\nkind: ConfigMap\nmetadata:\n"
    )
    assert "managedFields" in ctl.text("get", "cm", "a", "-o", "yaml", "--show-managed-fields")
    listed = ctl.text("get", "wd", "-o", "json")
    assert listed == (
        '{\n    "apiVersion": "v1",\n    "items": [],\n    "kind": "List",\n'
        '    "metadata": {\n        "resourceVersion": ""\n    }\n}\n'
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{.items[*].metadata.name}", "a b", id="all"),
        pytest.param(
            '{range .items[*]}{.metadata.name}={.data.x}{"\\n"}{end}', "a=1\nb=2\n", id="range"
        ),
        pytest.param('{.items[?(@.metadata.name=="b")].data.x}', "2", id="filter"),
        pytest.param("{.items[0].metadata.labels['app\\.io/name']}", "named", id="escaped"),
        pytest.param("{.items[*].nope}", "", id="missing"),
        pytest.param("{.items[0].data}", '{"x":"1"}', id="object"),
        pytest.param("{.kind}/{.items[-1].metadata.name}", "List/b", id="last"),
    ],
)
def test_get_with_jsonpath(ctl: Ctl, template: str, expected: str) -> None:
    both = config_map("a", x="1") + "---\n" + config_map("b", x="2")
    both = both.replace("{name: a}", "{name: a, labels: {app.io/name: named}}")
    ctl.text("apply", "-f", "-", input=both)
    ctl.expect("get", "cm", "a", "b", "-o", f"jsonpath={template}", out=expected)


def test_names_and_empty_lists(ctl: Ctl) -> None:
    ctl.expect("get", "wd", "-o", "name")
    ctl.expect("get", "wd", err=f"No resources found in {ctl.namespace} namespace.\n")
    ctl.expect("get", "wd", "--ignore-not-found")
    ctl.text("apply", "-f", "-", input=WIDGET)
    ctl.expect("get", "wd", "-o", "name", out="widget.example.com/w1\n")
    ctl.expect("get", "ns", "default", "-o", "name", out="namespace/default\n")


def test_missing_objects_and_resources_are_errors(ctl: Ctl) -> None:
    missing = 'Error from server (NotFound): configmaps "{}" not found\n'
    ctl.expect("get", "cm", "nope", code=1, err=missing.format("nope"))
    ctl.expect("get", "cm", "x", "y", code=1, err=missing.format("x") + missing.format("y"))
    ctl.expect("get", "cm", "nope", "--ignore-not-found")
    ctl.expect(
        "get", "nope", code=1, err='error: the server doesn\'t have a resource type "nope"\n'
    )
    ctl.expect("describe", "cm", "nope", code=1, err=missing.format("nope"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["get", "cm", "a", "-l", "x=y"],
            "error: name cannot be provided when a selector is specified\n",
            id="name and selector",
        ),
        pytest.param(
            ["get", "ns", "-o", "custom-columns=x"],
            "error: unexpected custom-columns spec: x, expected <header>:<json-path-expr>\n",
            id="custom columns",
        ),
        pytest.param(
            ["get", "ns", "-o", "jsonpath={.x"],
            "error: error parsing jsonpath {.x, unclosed action\n",
            id="jsonpath",
        ),
        pytest.param(
            ["delete", "cm"],
            "error: resource(s) were provided, but no name was specified\n",
            id="delete without name",
        ),
        pytest.param(
            ["get", "ns", "--nope"],
            re.compile("[Ee]rror: unknown flag: --nope\nSee 'kubectl get --help' for usage.\n"),
            id="unknown flag",
        ),
        pytest.param(["apply"], "error: must specify one of -f and -k\n", id="apply nothing"),
        pytest.param(
            ["apply", "-f", "/does/not/exist"],
            'error: the path "/does/not/exist" does not exist\n',
            id="missing file",
        ),
        pytest.param(
            ["patch", "cm", "a", "--type=x", "-p", "{}"],
            'error: --type must be one of [json merge strategic], not "x"\n',
            id="patch type",
        ),
        pytest.param(
            ["wait", "ns/default", "--for=x"], 'error: unrecognized condition: "x"\n', id="wait"
        ),
    ],
)
def test_usage_errors_have_the_text_of_kubectl(
    anywhere: Ctl, words: list[str], message: str | re.Pattern[str]
) -> None:
    anywhere.expect(*words, code=1, err=message)


def test_field_selectors_and_all_namespaces(ctl: Ctl) -> None:
    ctl.text("create", "cm", "only-here")
    ctl.expect(
        *("get", "cm", "-A", "--field-selector=metadata.name=only-here", "-o", "name"),
        out=re.compile("(configmap/only-here\n)+"),
    )
    shown = ctl.text("get", "cm", "-A", "--field-selector=metadata.name=only-here")
    assert shown.startswith("NAMESPACE ") and ctl.namespace in shown


def test_raw_paths(anywhere: Ctl) -> None:
    assert '"gitVersion"' in anywhere.text("get", "--raw", "/version")
    anywhere.expect(
        *("get", "--raw", "/nope"),
        code=1,
        err="Error from server (NotFound): the server could not find the requested resource\n",
    )


def test_sorting(ctl: Ctl) -> None:
    for name, value in (("a", "3"), ("b", "1"), ("c", "2")):
        ctl.text("create", "cm", name, f"--from-literal=v={value}")
    names = ctl.text("get", "cm", "--sort-by=.data.v", "-o", "name").split()
    assert [n for n in names if "root-ca" not in n] == [f"configmap/{n}" for n in "bca"]


# -- writing


def test_apply_reports_created_configured_and_unchanged(ctl: Ctl) -> None:
    ctl.expect("apply", "-f", "-", input=config_map("a", x="1", b="2"), out="configmap/a created\n")
    ctl.expect(
        "apply", "-f", "-", input=config_map("a", x="1", b="2"), out="configmap/a unchanged\n"
    )
    ctl.text("patch", "cm", "a", "-p", '{"data": {"other": "kept"}}')
    ctl.expect("apply", "-f", "-", input=config_map("a", x="9"), out="configmap/a configured\n")
    ctl.expect("get", "cm", "a", "-o", "jsonpath={.data}", out='{"other":"kept","x":"9"}')
    ctl.expect(
        *("apply", "-f", "-", "--dry-run=server"),
        input=config_map("a", x="10"),
        out="configmap/a configured (server dry run)\n",
    )
    ctl.expect(
        *("apply", "-f", "-", "--dry-run=client"),
        input=config_map("b"),
        out="configmap/b created (dry run)\n",
    )
    ctl.expect("get", "cm", "a", "-o", "jsonpath={.data.x}", out="9")


def test_apply_merges_lists_of_built_in_kinds(ctl: Ctl) -> None:
    account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s}\nsecrets: "
    ctl.text("apply", "-f", "-", input=account + "[{name: a}, {name: b}]\n")
    ctl.text("patch", "sa", "s", "-p", '{"secrets": [{"name": "theirs"}]}')
    ctl.expect(
        "apply", "-f", "-", input=account + "[{name: b}, {name: c}]\n",
        out="serviceaccount/s configured\n",
    )  # fmt: skip
    names = ctl.text("get", "sa", "s", "-o", "jsonpath={.secrets[*].name}").split()
    assert sorted(names) == ["b", "c", "theirs"]


def test_apply_replaces_lists_of_custom_resources(ctl: Ctl) -> None:
    ctl.expect("apply", "-f", "-", input=WIDGET, out="widget.example.com/w1 created\n")
    ctl.expect("apply", "-f", "-", input=WIDGET, out="widget.example.com/w1 unchanged\n")
    changed = WIDGET.replace("[{name: a}, {name: b}]", "[{name: c}]")
    ctl.expect("apply", "-f", "-", input=changed, out="widget.example.com/w1 configured\n")
    ctl.expect("get", "wd", "w1", "-o", "jsonpath={.spec.parts[*].name}", out="c")
    without = WIDGET.replace(", parts: [{name: a}, {name: b}]", "")
    ctl.text("apply", "-f", "-", input=without)
    ctl.expect("get", "wd", "w1", "-o", "jsonpath={.spec}", out='{"mode":"a","size":3}')


def test_apply_warns_about_objects_it_did_not_create(ctl: Ctl) -> None:
    ctl.text("create", "-f", "-", input=config_map("a"))
    got = ctl("apply", "-f", "-", input=config_map("a", x="1"))
    assert got.out == "configmap/a configured\n"
    assert got.err.startswith(
        "Warning: resource configmaps/a is missing the"
        " kubectl.kubernetes.io/last-applied-configuration annotation"
    )


def test_apply_of_files_and_directories(ctl: Ctl, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(config_map("a") + "---\n" + config_map("b"))
    (tmp_path / "c.json").write_text(
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}'
    )
    (tmp_path / "notes.txt").write_text("not a manifest")
    created = "".join(f"configmap/{name} created\n" for name in "abc")
    ctl.expect("apply", "-f", str(tmp_path), out=created)
    ctl.expect(
        "delete",
        "-f",
        str(tmp_path),
        out=re.compile(f"(configmap {DELETED}){{3}}".replace("{name}", "[abc]")),
    )


def test_server_side_apply_detects_conflicts(ctl: Ctl) -> None:
    applied = "configmap/a serverside-applied\n"
    words = ("apply", "--server-side", "-f", "-")
    ctl.expect(*words, "--field-manager=first", input=config_map("a", x="1"), out=applied)
    got = ctl(*words, "--field-manager=second", input=config_map("a", x="2"))
    assert (got.code, got.out) == (1, "")
    assert got.err.startswith(
        'error: Apply failed with 1 conflict: conflict with "first": .data.x\n'
        "Please review the fields above--they currently have other managers."
    )
    ctl.expect(
        *words, "--field-manager=second", "--force-conflicts", input=config_map("a", x="2"),
        out=applied,
    )  # fmt: skip
    ctl.expect("get", "cm", "a", "-o", "jsonpath={.data.x}", out="2")


def test_server_side_apply_takes_over_from_client_side(ctl: Ctl) -> None:
    ctl.text("apply", "-f", "-", input=config_map("a", x="1", b="1"))
    ctl.text("apply", "--server-side", "-f", "-", input=config_map("a", x="2", b="1"))
    ctl.text("apply", "--server-side", "-f", "-", input=config_map("a", x="3"))
    ctl.expect("get", "cm", "a", "-o", "jsonpath={.data}", out='{"x":"3"}')


def test_invalid_manifests_are_rejected(ctl: Ctl) -> None:
    ctl.expect("apply", "-f", "-", code=1, err="error: no objects passed to apply\n")
    ctl.expect(
        *("create", "-f", "-"),
        input="a: 1\n",
        code=1,
        err='error: error validating "STDIN": error validating data: [apiVersion not set, kind not'
        " set]; if you choose to ignore these errors, turn validation off with"
        " --validate=false\n",
    )
    ctl.expect(
        *("apply", "-f", "-"),
        input=config_map("a") + "unknown: 1\n",
        code=1,
        err='Error from server (BadRequest): error when creating "STDIN": ConfigMap in version'
        ' "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field'
        ' "unknown"\n',
    )
    got = ctl("create", "-f", "-", input=config_map("Not_Valid"))
    assert got.code == 1 and got.err.startswith('The ConfigMap "Not_Valid" is invalid: metadata')
    got = ctl("apply", "-f", "-", input=WIDGET.replace("size: 3", "size: big"))
    assert got.code == 1 and 'The Widget "w1" is invalid: spec.size' in got.err
    elsewhere = config_map("a").replace("{name: a}", "{name: a, namespace: other}")
    ctl.expect(
        *("apply", "-f", "-"),
        input=elsewhere,
        code=1,
        err='error: the namespace from the provided object "other" does not match the namespace'
        f" \"{ctl.namespace}\". You must pass '--namespace=other' to perform this operation.\n",
    )


def test_create_from_arguments(ctl: Ctl, tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("content\n")
    ctl.expect(
        *("create", "configmap", "a", "--from-literal=k=v=w", f"--from-file={file}"),
        out="configmap/a created\n",
    )
    ctl.expect(
        "get", "cm", "a", "-o", "jsonpath={.data}", out='{"data.txt":"content\\n","k":"v=w"}'
    )
    ctl.expect(
        *("create", "cm", "a"),
        code=1,
        err='error: failed to create configmap: configmaps "a" already exists\n',
    )
    ctl.expect("create", "secret", "generic", "s", "--from-literal=k=v", out="secret/s created\n")
    ctl.expect("get", "secret", "s", "-o", "jsonpath={.type} {.data}", out='Opaque {"k":"dg=="}')
    ctl.expect("create", "sa", "x", out="serviceaccount/x created\n")
    assert ctl.text("create", "token", "x").count(".") == 2
    ctl.expect(
        *("create", "role", "r", "--verb=get,list", "--resource=cm,widgets.example.com"),
        out="role.rbac.authorization.k8s.io/r created\n",
    )
    rules = ctl.text(
        "get", "role", "r", "-o", "jsonpath={.rules[*].apiGroups}{.rules[*].resources}"
    )
    assert rules == '[""] ["example.com"]["configmaps"] ["widgets"]'
    ctl.expect(
        *(
            "create",
            "rolebinding",
            "b",
            "--role=r",
            "--user=u",
            f"--serviceaccount={ctl.namespace}:x",
        ),
        out="rolebinding.rbac.authorization.k8s.io/b created\n",
    )
    ctl.expect("auth", "can-i", "get", "cm", "--as=u", out="yes\n")
    ctl.expect("auth", "can-i", "delete", "cm", "--as=u", out="no\n", code=1)
    ctl.expect(
        *("get", "secrets", "--as=u"),
        code=1,
        err=re.compile(r"Error from server \(Forbidden\): secrets is forbidden: User \"u\" .*\n"),
    )


def test_create_and_replace(ctl: Ctl) -> None:
    ctl.expect("create", "-f", "-", input=config_map("a", x="1"), out="configmap/a created\n")
    ctl.expect(
        *("create", "-f", "-"),
        input=config_map("a"),
        code=1,
        err='Error from server (AlreadyExists): error when creating "STDIN": configmaps "a" already'
        " exists\n",
    )
    ctl.expect("replace", "-f", "-", input=config_map("a", b="2"), out="configmap/a replaced\n")
    ctl.expect("get", "cm", "a", "-o", "jsonpath={.data}", out='{"b":"2"}')
    ctl.expect(
        *("replace", "-f", "-"),
        input=config_map("b"),
        code=1,
        err=re.compile(r'Error from server \(NotFound\): .*configmaps "b" not found\n'),
    )


def test_patches(ctl: Ctl) -> None:
    ctl.text("apply", "-f", "-", input=WIDGET)
    ctl.text("create", "cm", "a", "--from-literal=x=1")
    ctl.expect("patch", "cm", "a", "-p", '{"data":{"b":"2"}}', out="configmap/a patched\n")
    ctl.expect("patch", "cm", "a", "-p", "data: {b: '2'}", out="configmap/a patched (no change)\n")
    ctl.expect(
        *("patch", "cm", "a", "--type=json", "-p", '[{"op":"remove","path":"/data/x"}]'),
        out="configmap/a patched\n",
    )
    ctl.expect("get", "cm", "a", "-o", "jsonpath={.data}", out='{"b":"2"}')
    ctl.expect(
        *("patch", "wd", "w1", "--type=merge", "-p", '{"spec":{"size":5}}', "--dry-run=server"),
        out="widget.example.com/w1 patched\n",
    )
    ctl.expect(
        *("patch", "wd", "w1", "--type=merge", "--subresource=status"),
        *("-p", '{"status":{"phase":"Done"}}'),
        out="widget.example.com/w1 patched\n",
    )
    ctl.expect("get", "wd", "w1", "-o", "jsonpath={.spec.size} {.status.phase}", out="3 Done")
    got = ctl("patch", "wd", "w1", "-p", '{"spec":{"size":5}}')
    assert got.code == 1 and "application/merge-patch+json" in got.err


def test_labels_and_annotations(ctl: Ctl) -> None:
    ctl.text("create", "cm", "a")
    ctl.expect("label", "cm", "a", "k=v", out="configmap/a labeled\n")
    ctl.expect("label", "cm", "a", "k=v", out="configmap/a not labeled\n")
    ctl.expect(
        *("label", "cm", "a", "k=w"),
        code=1,
        err="error: 'k' already has a value (v), and --overwrite is false\n",
    )
    ctl.expect("label", "cm", "a", "k=w", "--overwrite", out="configmap/a labeled\n")
    ctl.expect("label", "cm", "a", "--list", out="k=w\n")
    ctl.expect("label", "cm/a", "k-", out="configmap/a unlabeled\n")
    ctl.expect("label", "cm", "a", code=1, err="error: at least one label update is required\n")
    ctl.expect("annotate", "cm", "a", "n=1", out="configmap/a annotated\n")
    ctl.expect(
        *("annotate", "cm", "a", "n=2"),
        code=1,
        err="error: --overwrite is false but found the following declared annotation(s):"
        " 'n' already has a value (1)\n",
    )
    ctl.expect("annotate", "--overwrite", "cm", "a", "n=2", out="configmap/a annotated\n")
    ctl.expect("get", "cm", "a", "-o", "jsonpath={.metadata.annotations.n}", out="2")
    ctl.expect("annotate", "cm", "a", "n-", out="configmap/a annotated\n")


def test_delete_waits_for_finalizers(ctl: Ctl) -> None:
    held = WIDGET.replace("{name: w1}", "{name: w1, finalizers: [example.com/hold]}")
    ctl.text("apply", "-f", "-", input=held)
    deleted = re.compile("widget.example.com " + DELETED.format(name="w1"))
    ctl.expect(
        *("delete", "wd", "w1", "--timeout=1s"),
        code=1,
        out=deleted,
        err=re.compile("(.*\n)*error: timed out waiting for the condition on widgets/w1\n"),
    )
    ctl.expect("delete", "wd", "w1", "--wait=false", out=deleted)
    ctl.text("get", "wd", "w1")
    ctl.text("patch", "wd", "w1", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    ctl.expect("get", "wd", "-o", "name")


def test_delete(ctl: Ctl) -> None:
    ctl.text("create", "cm", "a")
    ctl.text("create", "cm", "b")
    ctl.text("label", "cm", "a", "b", "group=x")
    dry = re.compile(r'configmap "a" deleted( from \S+ namespace)? \(server dry run\)\n')
    ctl.expect("delete", "cm", "a", "--dry-run=server", out=dry)
    ctl.expect("delete", "cm", "a", out=re.compile("configmap " + DELETED.format(name="a")))
    ctl.expect(
        *("delete", "cm", "a"),
        code=1,
        err='Error from server (NotFound): configmaps "a" not found\n',
    )
    ctl.expect("delete", "cm", "a", "--ignore-not-found")
    ctl.expect(
        *("delete", "cm", "-l", "group=x"),
        out=re.compile("configmap " + DELETED.format(name="b")),
    )
    ctl.expect("delete", "cm", "-l", "group=x", out="No resources found\n")


def test_delete_waits_until_a_namespace_is_gone(anywhere: Ctl) -> None:
    anywhere.text("create", "namespace", "soon-gone")
    anywhere.text("create", "cm", "a", "-n", "soon-gone")
    anywhere.expect("delete", "ns", "soon-gone", out='namespace "soon-gone" deleted\n')
    anywhere.expect("get", "ns", "soon-gone", "--ignore-not-found")


def test_scale_of_a_custom_resource(ctl: Ctl) -> None:
    ctl.text("apply", "-f", "-", input=WIDGET.replace("size: 3", "size: 3, replicas: 1"))
    ctl.expect("scale", "wd", "w1", "--replicas=4", out="widget.example.com/w1 scaled\n")
    ctl.expect("get", "wd", "w1", "-o", "jsonpath={.spec.replicas}", out="4")


# -- wait, describe, explain


def test_wait(ctl: Ctl) -> None:
    ctl.text("apply", "-f", "-", input=WIDGET)
    met = "widget.example.com/w1 condition met\n"
    ctl.expect("wait", "wd/w1", "--for=create", "--timeout=5s", out=met)
    for selection in (
        ["--field-selector=metadata.name=w1"],
        ["-l", "!absent", "--field-selector=metadata.name=w1"],
        ["--all", "--field-selector=metadata.name=w1"],
    ):
        ctl.expect("wait", "wd", *selection, "--for=create", "--timeout=5s", out=met)
    got = ctl("wait", "wd", "-l", "a=none", "--for=create", "--timeout=1s")
    assert (got.code, got.out) == (1, "")
    # kubectl 1.3x does not wait for a selection, later ones and ours do.
    assert got.err.endswith(("timed out waiting for the condition\n", "resources found\n"))
    ctl.expect("wait", "wd/w1", "--for=jsonpath={.spec.size}=3", out=met)
    ctl.expect("wait", "wd/w1", "--for=jsonpath={.spec.mode}", out=met)
    late = "error: timed out waiting for the condition on widgets/w1\n"
    got = ctl("wait", "wd/w1", "--for=condition=Ready", "--timeout=1s")
    assert (got.code, got.out) == (1, "") and got.err.endswith(late)
    status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    ctl.text("patch", "wd", "w1", "--subresource=status", "--type=merge", "-p", status)
    ctl.expect("wait", "wd/w1", "--for=condition=Ready", out=met)
    ctl.expect("wait", "wd/w1", "--for=condition=ready=true", out=met)
    ctl.expect("wait", "wd", "--field-selector=metadata.name=w1", "--for=condition=Ready", out=met)
    ctl.expect("wait", "wd/nope", "--for=delete")
    ctl.expect(
        *("wait", "wd/nope", "--for=condition=Ready"),
        code=1,
        err='Error from server (NotFound): widgets.example.com "nope" not found\n',
    )
    ctl.expect(
        *("wait", "wd", "-l", "a=b", "--for=condition=Ready"),
        code=1,
        err="error: no matching resources found\n",
    )


def test_describe(ctl: Ctl) -> None:
    ctl.text("create", "cm", "a", "--from-literal=key=some text")
    described = ctl.text("describe", "cm", "a")
    assert described == (
        f"Name:         a\nNamespace:    {ctl.namespace}\nLabels:       <none>\n"
        "Annotations:  <none>\n\nData\n====\nkey:\n----\nsome text\n\n\n"
        "BinaryData\n====\n\nEvents:  <none>\n"
    )
    ctl.text("create", "secret", "generic", "s", "--from-literal=key=secret")
    described = ctl.text("describe", "secret", "s")
    assert described.endswith("Type:  Opaque\n\nData\n====\nkey:  6 bytes\n")
    ctl.text("apply", "-f", "-", input=WIDGET)
    described = ctl.text("describe", "wd", "w1")
    assert "API Version:  example.com/v1\nKind:         Widget\nMetadata:\n" in described
    assert described.endswith(
        "Spec:\n  Mode:  a\n  Parts:\n    Name:  a\n    Name:  b\n  Size:    3\nEvents:    <none>\n"
    )


def test_events_of_an_object(ctl: Ctl) -> None:
    ctl.text("create", "cm", "a")
    uid = ctl.text("get", "cm", "a", "-o", "jsonpath={.metadata.uid}")
    event = f"""
apiVersion: v1
kind: Event
metadata: {{name: e, namespace: {ctl.namespace}}}
involvedObject: {{apiVersion: v1, kind: ConfigMap, name: a, namespace: {ctl.namespace}, uid: {uid}}}
reason: Made
message: It was made
type: Normal
firstTimestamp: "2020-01-01T00:00:00Z"
lastTimestamp: "2020-01-01T00:00:00Z"
source: {{component: tester}}
"""
    ctl.text("create", "-f", "-", input=event)
    row = r"LAST SEEN   TYPE     REASON   OBJECT        MESSAGE\n"
    row += r"\S+ +Normal   Made     {}   It was made\n"
    ctl.expect(
        "get",
        "events",
        "--field-selector",
        "involvedObject.kind=ConfigMap",
        out=re.compile(row.format("configmap/a")),
    )
    ctl.expect("events", "--for=cm/a", out=re.compile(row.format("ConfigMap/a")))
    ctl.expect("events", "--types=Warning", err=f"No events found in {ctl.namespace} namespace.\n")
    described = ctl.text("describe", "cm", "a")
    assert re.search(
        r"Events:\n  Type    Reason  Age     From    Message\n"
        r"  ----    ------  ----    ----    -------\n"
        r"  Normal  Made    \S+ +tester  It was made\n",
        described,
    )


def test_explain(anywhere: Ctl) -> None:
    anywhere.expect(
        *("explain", "wd.spec"),
        out="GROUP:      example.com\nKIND:       Widget\nVERSION:    v1\n\n"
        "FIELD: spec <Object>\n\n\nDESCRIPTION:\n    What is wanted.\n    \nFIELDS:\n"
        "  mode\t<string>\n  enum: a, b\n    <no description>\n\n"
        "  parts\t<[]Object>\n    <no description>\n\n"
        "  replicas\t<integer>\n    <no description>\n\n"
        "  size\t<integer> -required-\n    How big it is.\n\n\n",
    )
    shown = anywhere.text("explain", "wd", "--recursive")
    assert "  spec\t<Object>\n    mode\t<string>\n    enum: a, b\n" in shown
    assert "    parts\t<[]Object>\n      name\t<string>\n" in shown
    got = anywhere("explain", "wd.nope")
    assert (got.code, got.err) == (1, 'error: field "nope" does not exist\n')


def test_discovery_commands(anywhere: Ctl) -> None:
    of_all = anywhere.text("api-resources", "--categories=all", "--output=name").split()
    assert {"widgets.example.com", "apps.app.rancherdesktop.io"} <= set(of_all)
    assert "configmaps" not in of_all
    lines = anywhere.text("api-resources").splitlines()
    assert [line for line in lines if line.startswith("widgets")] == [
        next(
            line
            for line in lines
            if re.fullmatch(r"widgets +wd +example\.com/v1 +true +Widget", line)
        )
    ]
    names = anywhere.text("api-resources", "--namespaced=false", "-o", "name").split()
    assert "namespaces" in names and "configmaps" not in names
    versions = anywhere.text("api-versions").split()
    assert versions == sorted(versions) and {"v1", "example.com/v1"} <= set(versions)


def test_config_commands(anywhere: Ctl) -> None:
    anywhere.expect("config", "current-context", out="root\n")
    anywhere.expect("config", "get-contexts", "-o", "name", out="root\nuser\n")
    server = anywhere.text(
        "config", "view", "--minify", "--flatten", "--output=jsonpath={.clusters[0].cluster.server}"
    )
    assert server.startswith("https://127.0.0.1:")
    shown = anywhere.text("config", "view")
    assert "token: REDACTED" in shown and "DATA+OMITTED" in shown
    anywhere.expect(
        *("config", "use-context", "nope"),
        code=1,
        err='error: no context exists with the name: "nope"\n',
    )
    assert "system-admin" in anywhere.text("auth", "whoami")


def test_diff_sets_the_exit_code(ctl: Ctl) -> None:
    ctl.text("apply", "-f", "-", input=config_map("a", x="1"))
    ctl.expect("diff", "-f", "-", input=config_map("a", x="1"))
    got = ctl("diff", "-f", "-", input=config_map("a", x="2"))
    assert got.code == 1
    assert '\n-  x: "1"\n+  x: "2"\n' in got.out


def test_global_flags_of_rdd_precede_ctl(anywhere: Ctl) -> None:
    done = run_program(
        [str(anywhere.script), "--log-level=debug", "ctl", "get", "ns", "default", "-o", "name"],
        env=dict(anywhere.env),
    )
    assert (done.returncode, done.stdout) == (0, "namespace/default\n")


def test_watch_prints_changes(ctl: Ctl) -> None:
    ctl.text("create", "cm", "a")
    watched = ["get", "cm", "a", "-w", "-o", "jsonpath={.data.x};"]
    command = [str(ctl.script), "ctl", "-n", ctl.namespace, *watched]
    with start_program(command, env=dict(ctl.env)) as watching:
        assert watching.stdout is not None
        assert watching.stdout.read(1) == ";"
        ctl.text("patch", "cm", "a", "-p", '{"data":{"x":"1"}}')
        assert watching.stdout.read(2) == "1;"


def test_wait_condition(anywhere: Ctl) -> None:
    words = ("wait-condition", "crd.apiextensions.k8s.io/widgets.example.com")
    anywhere.expect(*words, "Established")
    anywhere.expect(*words, "Established=True", "--reason", "InitialNamesAccepted")
    got = anywhere(*words, "Established=False", "--timeout=300ms")
    assert got.code == 4
    assert 'level=error msg="waiting for Established=False of' in got.err
    assert "context deadline exceeded" in got.err
    got = anywhere(*words, "Established", "--since=2999-01-01T00:00:00Z", "--timeout=300ms")
    assert got.code == 4
