# SPDX-License-Identifier: Apache-2.0
"""Workloads in the built-in client; our own server does not have these kinds."""

import io
import json
import sys
from pathlib import Path

import pytest
from tests.programs import run_program

from rdd.api.types import Object
from rdd.base.pflag import Value
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import make_flags
from rdd.kubectl.main import run_client
from rdd.kubectl.session import Session, Streams
from rdd.kubectl.verbs.expose import _service as service
from rdd.kubectl.verbs.rollout import _daemon_set, _deployment, _stateful_set
from rdd.testing import LiveServer


def made(*words: str) -> Object:
    out, err = io.StringIO(), io.StringIO()
    code = run_client(
        ["--dry-run=client", "-o", "json", *words], {}, Streams(out, err, io.StringIO())
    )
    assert (code, err.getvalue()) == (0, "")
    obj: Object = json.loads(out.getvalue())
    return obj


def test_deployment_from_arguments() -> None:
    words = ["create", "deployment", "web", "--image=r.example/n_x:1", "--replicas=2", "--port=80"]
    obj = made(*words, "--", "run", "-x")
    assert obj["metadata"] == {"labels": {"app": "web"}, "name": "web"}
    spec = obj["spec"]
    assert (spec["replicas"], spec["selector"]) == (2, {"matchLabels": {"app": "web"}})
    assert spec["template"]["spec"]["containers"] == [
        {
            "name": "n-x",
            "image": "r.example/n_x:1",
            "command": ["run", "-x"],
            "ports": [{"containerPort": 80}],
            "resources": {},
        }
    ]


def test_secrets_from_arguments(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("C")
    (tmp_path / "env").write_text("# comment\nA=1\n\nB=x=y\n")
    obj = made("create", "secret", "tls", "t", f"--cert={tmp_path}/c", f"--key={tmp_path}/c")
    assert (obj["type"], obj["data"]) == (
        "kubernetes.io/tls",
        {"tls.crt": "Qw==", "tls.key": "Qw=="},
    )
    obj = made("create", "cm", "c", f"--from-env-file={tmp_path}/env")
    assert obj["data"] == {"A": "1", "B": "x=y"}
    obj = made(
        "create", "secret", "docker-registry", "r", "--docker-username=u", "--docker-password=p"
    )
    assert obj["type"] == "kubernetes.io/dockerconfigjson"


def session(**values: Value) -> Session:
    named = {key.replace("_", "-"): value for key, value in values.items()}
    streams = Streams(io.StringIO(), io.StringIO(), io.StringIO())
    return Session(make_flags(named), [], streams, {})


WORKLOAD: Object = {
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "n", "labels": {"l": "1"}},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"spec": {"containers": [{"ports": [{"containerPort": 80}]}]}},
    },
}


def test_service_selects_the_pods_of_a_workload() -> None:
    obj = service(session(), WORKLOAD)
    assert obj["metadata"] == {"name": "web", "namespace": "n", "labels": {"l": "1"}}
    assert obj["spec"] == {
        "selector": {"app": "web"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }
    obj = service(session(port="1,2", target_port="http", type="NodePort", name="x"), WORKLOAD)
    assert obj["metadata"]["name"] == "x" and obj["spec"]["type"] == "NodePort"
    assert [p["name"] for p in obj["spec"]["ports"]] == ["port-1", "port-2"]


def test_service_requires_ports_and_labels() -> None:
    bare = {**WORKLOAD, "spec": {"selector": {"matchLabels": {"a": "b"}}}}
    with pytest.raises(KubectlError, match="couldn't find port"):
        service(session(), bare)
    with pytest.raises(KubectlError, match="has no labels and cannot be exposed"):
        service(session(), {**WORKLOAD, "spec": {}})


def workload(status: Object, *, generation: int = 2, replicas: int = 3) -> Object:
    metadata = {"name": "w", "generation": generation}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


@pytest.mark.parametrize(
    ("status", "text", "is_done"),
    [
        (
            {"observedGeneration": 1},
            "Waiting for deployment spec update to be observed...\n",
            False,
        ),
        (
            {"observedGeneration": 2, "updatedReplicas": 1},
            'Waiting for deployment "w" rollout to finish: 1 out of 3 new replicas have been'
            " updated...\n",
            False,
        ),
        (
            {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 4},
            'Waiting for deployment "w" rollout to finish: 1 old replicas are pending'
            " termination...\n",
            False,
        ),
        (
            {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 2},
            'Waiting for deployment "w" rollout to finish: 2 of 3 updated replicas are'
            " available...\n",
            False,
        ),
        (
            {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3},
            'deployment "w" successfully rolled out\n',
            True,
        ),
    ],
)
def test_rollout_of_a_deployment(status: Object, text: str, is_done: bool) -> None:
    assert _deployment(workload(status)) == (text, is_done)


def test_rollout_past_its_deadline_is_an_error() -> None:
    stuck = {"observedGeneration": 2, "conditions": [{"reason": "ProgressDeadlineExceeded"}]}
    with pytest.raises(KubectlError, match="exceeded its progress deadline"):
        _deployment(workload(stuck))


def test_rollout_of_other_workloads() -> None:
    status: Object = {"observedGeneration": 2, "desiredNumberScheduled": 2}
    assert not _daemon_set(workload(status))[1]
    status |= {"updatedNumberScheduled": 2, "numberAvailable": 2}
    assert _daemon_set(workload(status)) == ('daemon set "w" successfully rolled out\n', True)
    status = {"observedGeneration": 2, "readyReplicas": 3, "updateRevision": "r2"}
    assert not _stateful_set(workload(status))[1]
    status |= {"currentRevision": "r2", "currentReplicas": 3}
    assert _stateful_set(workload(status)) == (
        "statefulset rolling update complete 3 pods at revision r2...\n",
        True,
    )


def test_simple_get_imports_nothing_heavy(apiserver: LiveServer) -> None:
    code = (
        "import sys; sys.argv = ['rdd', 'kubectl', 'get', 'ns']; from rdd.__main__ import main\n"
        "main(); sys.stderr.write(' '.join(sys.modules))"
    )
    done = run_program(
        [sys.executable, "-c", code],
        env={"KUBECONFIG": str(apiserver.kubeconfig), "RDD_KUBECTL": "builtin", "HOME": "/none"},
    )
    assert done.returncode == 0 and done.stdout.startswith("NAME ")
    loaded = set(done.stderr.split())
    heavy = {
        "asyncio",
        "aiohttp",
        "orjson",
        "subprocess",
        "tempfile",
        "rdd.client.aio",
        "rdd.client.transport",
        "rdd.apiserver",
    }
    assert loaded & heavy == set()
