# SPDX-License-Identifier: Apache-2.0
"""The daemon on a real etcd: one control plane, several of them, and what is refused."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from tests.e2e.service.service_world import World
from tests.etcd import EtcdServer, free_ports
from tests.programs import run_program

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


@pytest.fixture
def etcd(real_part: Callable[[str], Path], tmp_path: Path) -> Iterator[EtcdServer]:
    directory = tmp_path / "etcd"
    directory.mkdir()
    server = EtcdServer(real_part("etcd"), directory)
    server.start()
    yield server
    server.stop()


def address(etcd: EtcdServer, options: str = "") -> str:
    return f"etcd://127.0.0.1:{etcd.port}/rdd/team{options}"


def test_objects_are_in_etcd_and_survive_a_restart(world: World, etcd: EtcdServer) -> None:
    world.rdd("svc", "create", "--store", address(etcd))
    world.rdd("svc", "start")
    world.kubectl("create", "configmap", "first", "--from-literal=a=b")
    stored = etcd.etcdctl(
        "get", "--print-value-only", "/rdd/team/keys/registry/configmaps/default/first"
    )
    assert '"data":{"a":"b"}' in stored
    assert not world.instance.database.exists()
    world.rdd("svc", "stop")
    world.rdd("svc", "start")
    assert "first" in world.kubectl("get", "configmaps", "-o", "name")


def test_crashed_daemon_and_restarted_etcd_recover(world: World, etcd: EtcdServer) -> None:
    world.rdd("svc", "create", "--store", address(etcd))
    world.rdd("svc", "start")
    world.kubectl("create", "configmap", "first")
    world.crash()
    world.rdd("svc", "start")
    etcd.stop()
    path = "/api/v1/namespaces/default/configmaps/first"
    read = world.kubectl("get", "--raw", f"{path}?resourceVersion=0")
    assert json.loads(read)["metadata"]["name"] == "first"
    # Everything else is refused until etcd is back, without a restart.
    for words in (("get", "--raw", path), ("get", "--raw", "/readyz"), ("delete", "cm", "first")):
        world.until(lambda words=words: world.try_rdd("ctl", *words).code != 0)
    assert "(ServiceUnavailable)" in world.try_rdd("ctl", "delete", "cm", "first").err
    etcd.start()
    world.until(lambda: world.try_rdd("ctl", "get", "--raw", path).code == 0)
    world.until(
        lambda: (
            world.try_rdd("ctl", "create", "configmap", "second").code == 0
            or "second" in world.kubectl("get", "configmaps", "-o", "name")
        )
    )


def test_several_control_planes_share_a_store(world: World, etcd: EtcdServer) -> None:
    one, two = world.named("a"), world.named("b")
    shared = address(etcd, "?shared=true")
    for server in (one, two):
        server.rdd("svc", "create", "--controllers=", "--store", shared)
        server.rdd("svc", "start")
    for number in range(20):
        one.kubectl("create", "configmap", f"one-{number}")
        two.kubectl("get", "configmap", f"one-{number}")
    two.kubectl("create", "configmap", "two")
    created = json.loads(one.kubectl("get", "configmap", "two", "-o", "json"))
    version = created["metadata"]["resourceVersion"]
    one.kubectl("delete", "configmap", "two")
    # A watch moves to the other server with its resourceVersion.
    path = (
        f"/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}"
    )
    events = [json.loads(line) for line in two.kubectl("get", "--raw", path).splitlines()]
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [("DELETED", "two")]
    manifest = world.home / "crd.json"
    manifest.write_text(json.dumps(CRD))
    one.kubectl("create", "-f", str(manifest))
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    manifest.write_text(json.dumps(thing))
    world.until(lambda: "things" in two.kubectl("api-resources", "-o", "name"))
    two.kubectl("create", "-f", str(manifest))
    assert one.kubectl("get", "things", "-o", "name").split() == ["thing.example.com/t"]


def test_objects_of_a_crd_that_another_server_does_not_serve_yet(
    world: World, etcd: EtcdServer
) -> None:
    one, two = world.named("a"), world.named("b")
    for server in (one, two):
        server.rdd("svc", "create", "--controllers=", "--store", address(etcd, "?shared=true"))
        server.rdd("svc", "start")
    manifest, thing = world.home / "crd.json", world.home / "thing.json"
    # The other server is paused, so both events reach it before it can serve the CRD.
    os.kill(two.pid(), signal.SIGSTOP)
    manifest.write_text(json.dumps(CRD))
    one.kubectl("create", "-f", str(manifest))
    content = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "early"}}
    thing.write_text(json.dumps(content))
    world.until(lambda: "things" in one.kubectl("api-resources", "-o", "name"))
    one.kubectl("create", "-f", str(thing))
    path = "/apis/example.com/v1/namespaces/default/things"
    version = json.loads(one.kubectl("get", "--raw", path))["metadata"]["resourceVersion"]
    os.kill(two.pid(), signal.SIGCONT)
    world.until(lambda: "things" in two.kubectl("api-resources", "-o", "name"))
    for query in ("", "?resourceVersion=0", f"?resourceVersion={version}"):
        listed = json.loads(two.kubectl("get", "--raw", path + query))
        assert [item["metadata"]["name"] for item in listed["items"]] == ["early"]
    future = int(version) + 1_000_000
    refused = two.try_rdd("ctl", "get", "--raw", f"{path}?resourceVersion={future}")
    assert "Too large resource version" in refused.err + refused.out


def test_built_in_controllers_move_to_another_server(world: World, etcd: EtcdServer) -> None:
    one, two = world.named("a"), world.named("b")
    for server in (one, two):
        server.rdd("svc", "create", "--controllers=", "--store", address(etcd, "?shared=true"))
    one.rdd("svc", "start")
    # The identity of the first server, handed in by file, makes its tokens valid everywhere.
    shutil.copytree(one.instance.tls_dir, two.instance.tls_dir, dirs_exist_ok=True)
    two.rdd("svc", "start")
    holder = one.kubectl(
        "get", "lease", "controller-builtin", "-n", "rdd-system",
        "-o", "jsonpath={.spec.holderIdentity}",
    )  # fmt: skip
    assert one.instance.name in holder
    config = json.loads(one.kubectl("config", "view", "--raw", "-o", "json"))
    token = config["users"][0]["user"]["token"]
    assert "default" in two.kubectl("get", "namespaces", "-o", "name", f"--token={token}")
    two.kubectl("create", "namespace", "first")
    two.kubectl("delete", "namespace", "first")  # waits for the controller in the other server
    one.crash()
    two.kubectl("create", "namespace", "second")
    two.kubectl("delete", "namespace", "second")
    lease = json.loads(
        two.kubectl("get", "lease", "controller-builtin", "-n", "rdd-system", "-o", "json")
    )
    assert two.instance.name in lease["spec"]["holderIdentity"]
    assert lease["spec"]["leaseTransitions"] >= 1


def test_database_moves_to_etcd_and_back(world: World, etcd: EtcdServer) -> None:
    world.rdd("svc", "start", "--controllers=")
    for number in range(3):
        world.kubectl("create", "configmap", f"c-{number}")
    refused = world.try_rdd("svc", "copy-store", "--to", address(etcd))
    assert refused.code == 1 and "in use" in refused.err
    world.rdd("svc", "stop")
    done = world.rdd("svc", "copy-store", "--to", address(etcd))
    assert "and compared them" in done.messages[-1]
    again = world.try_rdd("svc", "copy-store", "--to", address(etcd))
    assert again.code == 1 and "is not empty" in again.err
    other = world.named("b")
    taken = other.try_rdd("svc", "copy-store", "--from", address(etcd))
    assert taken.code == 1 and "choose another prefix" in taken.err
    world.instance.database.rename(world.home / "old.db")
    world.rdd("svc", "copy-store", "--from", address(etcd))
    world.rdd("svc", "start", "--controllers=")
    names = world.kubectl("get", "configmaps", "-o", "name").split()
    assert {"configmap/c-0", "configmap/c-1", "configmap/c-2"} <= set(names)


def test_commands_for_the_database_name_the_store(world: World, etcd: EtcdServer) -> None:
    world.rdd("svc", "create", "--controllers=", "--store", address(etcd, "?shared=true"))
    world.rdd("svc", "start")
    world.kubectl("create", "configmap", "kept")
    pid = world.pid()
    (world.home / "file.db").write_text("")
    for words, advice in (
        (("reset", "--yes"), "nothing was reset"),
        (("backup",), "etcdctl snapshot save"),
        (("restore", str(world.home / "file.db")), "etcdctl snapshot restore"),
    ):
        refused = world.try_rdd("svc", *words)
        assert refused.code == 1
        assert f"keeps its objects in {address(etcd)}, not in a database" in refused.err
        assert advice in refused.err
    assert world.pid() == pid  # nothing was stopped
    refused = world.try_rdd("svc", "copy-store", "--from", address(etcd))
    assert refused.code == 1 and "add ?shared=true" in refused.err
    deleted = world.rdd("svc", "delete", "--yes")
    assert f"its objects in {address(etcd)} are kept" in deleted.messages[-1]
    assert "configmaps/default/kept" in etcd.etcdctl("get", "--prefix", "--keys-only", "/rdd/team/")


@pytest.mark.parametrize("flags", [(), ("--to", "etcd://a/b", "--from", "etcd://a/b")])
def test_copy_needs_one_direction(world: World, flags: tuple[str, ...]) -> None:
    done = world.try_rdd("svc", "copy-store", *flags)
    assert done.code == 1 and "needs either --from or --to" in done.err


def test_store_of_another_control_plane_is_refused(world: World, etcd: EtcdServer) -> None:
    one, two = world.named("a"), world.named("b")
    for server in (one, two):
        server.rdd("svc", "create", "--controllers=", "--store", address(etcd))
    one.rdd("svc", "start")
    done = two.try_rdd("svc", "start")
    assert done.code == 1
    assert 'belongs to "instance "a"' in done.err.replace("\\", "")


def test_machine_controllers_are_refused_on_a_shared_store(world: World, etcd: EtcdServer) -> None:
    world.rdd("svc", "create", "--store", address(etcd, "?shared=true"))
    done = world.try_rdd("svc", "start")
    assert done.code == 1
    assert "manage things of one machine: hostinfo, " in done.err
    assert "--machine NAME" in done.err


@pytest.mark.parametrize(
    ("store", "message"),
    [
        pytest.param("etcd://127.0.0.1:1/rdd", "Connection refused", id="unreachable"),
        pytest.param("etcd://127.0.0.1:1/rdd?ca=/none", "cannot use the certificates", id="ca"),
    ],
)
def test_unusable_store_is_reported_at_start(world: World, store: str, message: str) -> None:
    world.rdd("svc", "create", "--controllers=", "--store", store)
    done = world.try_rdd("svc", "start")
    assert done.code == 1
    assert message in done.err


def test_malformed_address_is_refused_before_anything_is_created(world: World) -> None:
    done = world.try_rdd("svc", "create", "--store", "postgres://host/db")
    assert done.code == 1
    assert "must begin with etcd://" in done.err
    assert not world.instance.dir.exists()


TEMPLATE = """\
arch: x86_64
vmType: qemu
images:
- location: /nowhere/image.qcow2
  arch: x86_64
"""
VM = {
    "apiVersion": "lima.rancherdesktop.io/v1alpha1",
    "kind": "LimaVM",
    "metadata": {"name": "vm"},
    "spec": {"running": False, "templateRef": {"name": "source"}},
}
RDD_GROUP = "rdd.rancherdesktop.io"
LABEL = f"{RDD_GROUP}/machine"


def reachable(server: World) -> tuple[str, str] | None:
    """Return status and reason of the condition MachineReachable of the LimaVM."""
    vm = json.loads(server.kubectl("get", "limavm", "vm", "-o", "json"))
    for condition in (vm.get("status") or {}).get("conditions") or ():
        if condition["type"] == "MachineReachable":
            return condition["status"], condition["reason"]
    return None


def test_only_the_machine_of_an_object_acts_on_it(world: World, etcd: EtcdServer) -> None:
    one, two = world.named("a"), world.named("b")
    for server, machine in ((one, "alpha"), (two, "beta")):
        server.rdd(
            *("svc", "create", "--controllers=lima,hostinfo", "--machine", machine),
            *("--store", address(etcd, "?shared=true")),
        )
        server.rdd("svc", "start")
    template, manifest = world.home / "template", world.home / "vm.json"
    template.write_text(TEMPLATE)
    manifest.write_text(json.dumps(VM))
    two.kubectl("create", "configmap", "source", f"--from-file=template={template}")
    two.kubectl("create", "-f", str(manifest))
    assert json.loads(one.kubectl("get", "limavm", "vm", "-o", "json"))["metadata"]["labels"] == {
        LABEL: "beta"
    }
    world.until(
        lambda: "finalizers" in two.kubectl("get", "limavm", "vm", "-o", "jsonpath={.metadata}")
    )
    assert not (one.instance.lima_home / "vm").exists()
    for server in (one, two):  # a HostInfo for each machine
        world.until(
            lambda server=server: (
                sorted(server.kubectl("get", "hostinfo", "-o", "name").split())
                == [f"hostinfo.{RDD_GROUP}/{machine}" for machine in ("alpha", "beta")]
            )
        )
    refused = one.try_rdd("ctl", "label", "limavm", "vm", f"{LABEL}=alpha", "--overwrite")
    assert "cannot be changed" in refused.err
    assert reachable(one) is None
    two.crash()
    world.until(lambda: reachable(one) == ("False", "MachineUnreachable"))
    # Nothing else of the object is touched, and its deletion waits for its machine.
    one.kubectl("delete", "limavm", "vm", "--wait=false")
    two.rdd("svc", "start")
    world.until(lambda: two.kubectl("get", "limavms", "-o", "name") == "")


def test_second_machine_cannot_run_the_app_of_another(world: World, etcd: EtcdServer) -> None:
    one, two = world.named("a"), world.named("b")
    for server, machine in ((one, "alpha"), (two, "beta")):
        server.rdd(
            *("svc", "create", "--machine", machine),
            *("--store", address(etcd, "?shared=true")),
        )
    one.rdd("svc", "start")
    app = {
        "apiVersion": "app.rancherdesktop.io/v1alpha1",
        "kind": "App",
        "metadata": {"name": "app"},
        "spec": {"running": False},
    }
    manifest = world.home / "app.json"
    manifest.write_text(json.dumps(app))
    one.kubectl("create", "-f", str(manifest))
    refused = two.try_rdd("svc", "start")
    assert refused.code == 1
    assert 'belongs to the machine "alpha"' in refused.err.replace("\\", "")
    assert "--controllers=lima" in refused.err
    assert one.kubectl("get", "app", "app", "-o", "name").strip().endswith("/app")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(("--machine", "m"), "--machine needs a shared store", id="no store"),
        pytest.param(
            ("--machine", "m", "--store", "etcd://h/p"), "--machine needs a shared store", id="own"
        ),
        pytest.param(
            ("--machine", "A b", "--store", "etcd://h/p?shared=true"),
            'invalid --machine "A b"; allowed',
            id="name",
        ),
        pytest.param(("--listen-address", "0.0.0.0:1"), "needs a certificate", id="no certificate"),
        pytest.param(
            ("--listen-address", "x", "--tls-cert-file", "a", "--tls-private-key-file", "b"),
            'invalid --listen-address "x"; expected HOST:PORT',
            id="address",
        ),
    ],
)
def test_invalid_flags_are_refused_before_anything_is_created(
    world: World, flags: tuple[str, ...], message: str
) -> None:
    done = world.try_rdd("svc", "create", *flags)
    assert done.code == 1 and message in done.err.replace("\\", ""), done
    assert not world.instance.dir.exists()


def admin_token_of(server: World) -> str:
    config = json.loads(server.kubectl("config", "view", "--raw", "-o", "json"))
    return str(config["users"][0]["user"]["token"])


def test_identity_is_shared_and_served_beyond_loopback(world: World, etcd: EtcdServer) -> None:
    one, two = world.named("a"), world.named("b")
    identity = world.home / "identity"
    identity.mkdir()
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.2", "control.example.com")
    issued.private_key_pem.write_to_path(world.home / "key.pem")
    issued.cert_chain_pems[0].write_to_path(world.home / "cert.pem")
    authority.cert_pem.write_to_path(world.home / "ca.pem")
    port = free_ports(1)[0]
    create = ["svc", "create", "--controllers=", "--store", address(etcd, "?shared=true")]
    create += ["--identity-dir", str(identity)]
    listening = ["--listen-address", f"127.0.0.2:{port}"]
    listening += ["--tls-cert-file", str(world.home / "cert.pem")]
    listening += ["--tls-private-key-file", str(world.home / "key.pem")]
    one.rdd(*create)
    two.rdd(*create, *listening)
    for server in (one, two):
        server.rdd("svc", "start")
    assert (identity / "tokens.json").stat().st_mode & 0o077 == 0
    token = one.kubectl("create", "token", "default").strip()
    admin_token = admin_token_of(one)
    one.rdd("svc", "stop")
    one.rdd("svc", "start")

    def user_of(given: str) -> str:
        """Return the user of a token at the second server's address beyond loopback."""
        done = run_program(
            [
                *(world.kubectl_path, "--server", f"https://127.0.0.2:{port}"),
                *("--certificate-authority", str(world.home / "ca.pem"), "--token", given),
                *("auth", "whoami", "-o", "json"),
            ],
            env={**world.environment(), "KUBECONFIG": "/dev/null"},
        )
        if done.returncode:
            return "Unauthorized" if "Unauthorized" in done.stderr else str(done)
        return str(json.loads(done.stdout)["status"]["userInfo"]["username"])

    assert user_of(token) == "system:serviceaccount:default:default"
    assert user_of(admin_token) == "system-admin"
    # A rotation, by a running daemon and without one, reaches the server that goes on.
    for is_running in (True, False):
        if not is_running:
            one.rdd("svc", "stop")
        one.rdd("svc", "rotate-tokens")
        if not is_running:
            one.rdd("svc", "start")
        old, admin_token = admin_token, admin_token_of(one)
        assert old != admin_token
        world.until(lambda old=old: user_of(old) == "Unauthorized")
        assert user_of(admin_token) == "system-admin"
        assert user_of(token) == "system:serviceaccount:default:default"
        world.until(lambda new=admin_token: admin_token_of(two) == new)


def test_quota_holds_for_creates_at_two_servers(world: World, etcd: EtcdServer) -> None:
    one, two = world.named("a"), world.named("b")
    for server in (one, two):
        server.rdd("svc", "create", "--controllers=", "--store", address(etcd, "?shared=true"))
        server.rdd("svc", "start")
    one.kubectl("create", "namespace", "small")
    one.kubectl("create", "quota", "q", "-n", "small", "--hard=count/configmaps=12")
    world.until(
        lambda: (
            json.loads(two.kubectl("get", "quota", "q", "-n", "small", "-o", "json"))
            .get("status", {})
            .get("used", {})
            .get("count/configmaps")
            == "1"  # kube-root-ca.crt
        )
    )
    creating = []
    for server, prefix in ((one, "a"), (two, "b")):
        items = [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{prefix}-{n}"}}
            for n in range(15)
        ]
        manifest = world.home / f"{prefix}.json"
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        creating.append(
            server.begin_program(
                *(world.kubectl_path, "--kubeconfig", server.instance.config),
                *("create", "-n", "small", "-f", str(manifest)),
            )
        )
    errors = [server.end(program).err for server, program in zip((one, two), creating, strict=True)]
    assert all("exceeded quota: q" in text for text in errors), errors

    def used() -> str:
        quota = json.loads(two.kubectl("get", "quota", "q", "-n", "small", "-o", "json"))
        return str(quota["status"]["used"]["count/configmaps"])

    names = two.kubectl("get", "configmaps", "-n", "small", "-o", "name").split()
    assert (len(names), used()) == (12, "12")
    one.kubectl("delete", names[0], "-n", "small")
    world.until(lambda: used() == "11")


def test_example_with_three_members_and_two_servers(
    world: World, real_part: Callable[[str], Path]
) -> None:
    real_part("etcd")
    example = Path(__file__).parents[3] / "examples" / "05-etcd" / "cluster.py"
    environment = {**world.environment(), "PATH": f"{world.script.parent}:{os.environ['PATH']}"}
    environment.pop("RDD_INSTANCE")
    done = run_program([sys.executable, str(example)], env=environment, timeout=240)
    assert done.returncode == 0, done
    shown = (example.parent / "README.md").read_text().partition("$ python cluster.py\n")[2]
    assert done.stdout == shown.partition("```")[0]
    assert not list(world.home.glob(".local/share/rancher-desktop-*"))
