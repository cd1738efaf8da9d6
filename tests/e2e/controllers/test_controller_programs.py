# SPDX-License-Identifier: Apache-2.0
"""Controller programs such as `rdd-controller`, as real processes."""

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tests.e2e.service.service_world import Done, World
from tests.programs import Program

from rdd.client.kubeconfig import load
from rdd.daemon.service.probe import NotReady, Probe

LEASE = "--lease-duration=3s"
MANAGER = ("get", "configmap", "-n", "rdd-system", "rdd-controller-manager", "-o", "json")


class Programs:
    """Starts programs and ends them with the test."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self, name: str, *words: str, **extra: str) -> Program[str]:
        return self.world.begin_program(self.world.script.with_name(name), *words, **extra)

    def run(self, name: str, *words: str, **extra: str) -> Done:
        return self.world.end(self.begin(name, *words, **extra))

    def begin_rdd(self, *words: str) -> Program[str]:
        """Start `rdd-controller` and wait until it runs."""
        known = self.entries().get("rdd")
        program = self.begin("rdd-controller", LEASE, *words)
        self.world.until(
            lambda: program.poll() is not None or self.entries().get("rdd") not in (None, known)
        )
        assert program.poll() is None, self.world.end(program)
        return program

    def entries(self) -> dict[str, Any]:
        data = json.loads(self.world.kubectl(*MANAGER)).get("data") or {}
        return {name: json.loads(text) for name, text in data.items()}

    def lease(self, controller: str) -> dict[str, Any]:
        name = f"controller-{controller}"
        text = self.world.kubectl("get", "lease", "-n", "rdd-system", name, "-o", "json")
        found: dict[str, Any] = json.loads(text)["spec"]
        return found

    def notarise(self, value: str) -> None:
        notary = {
            "apiVersion": "rdd.rancherdesktop.io/v1alpha1",
            "kind": "Notary",
            "metadata": {"name": "n", "namespace": "default"},
            "spec": {"value": value, "configMapName": "record"},
        }
        path = self.world.home / "notary.json"
        path.write_text(json.dumps(notary))
        self.world.kubectl("apply", "-f", str(path))

    def record(self) -> list[str]:
        """Return the recorded values in order."""
        text = self.world.kubectl("get", "cm", "record", "--ignore-not-found", "-o", "json")
        data = (json.loads(text).get("data") or {}) if text else {}
        changes = sorted(key for key in data if key[:7] == "change_" and key[7:].isdigit())
        return [data[key].partition("value=")[2] for key in changes]


@pytest.fixture
def programs(world: World) -> Programs:
    return Programs(world)


@pytest.fixture
def free(programs: Programs) -> Programs:
    """Start a daemon without the controllers of the group."""
    programs.world.rdd("svc", "start", "--controllers=*,-rdd")
    return programs


def refusal(done: Done) -> str:
    """Return the message of a program that exited with 1: exactly one line."""
    assert done.code == 1, done
    assert done.out == ""
    level, text = done.last
    assert level == "fatal"
    assert done.err.count("level=fatal") == done.err.count("level=error") + 1 == 1, done.err
    assert "Traceback" not in done.err
    return text


# -- start and stop


def test_program_runs_its_controllers_and_cleans_up(free: Programs) -> None:
    world = free.world
    program = free.begin_rdd()
    entry = free.entries()["rdd"]
    assert entry["enabledControllers"] == ["notary", "configmapreplicaset", "hostinfo"]
    with urllib.request.urlopen(entry["healthEndpoint"].replace("localhost", "127.0.0.1")) as ok:
        assert ok.read() == b"ok"
    assert free.lease("notary")["holderIdentity"].startswith("rdd-")
    free.notarise("first")
    world.until(lambda: free.record() == ["first"])
    with pytest.raises(AssertionError, match="cannot start with 'invalid'"):
        free.notarise("invalid")
    program.send_signal(signal.SIGTERM)
    done = world.end(program)
    assert done.code == 0, done
    assert "rdd" not in free.entries()
    assert not free.lease("notary").get("holderIdentity")
    leases = world.kubectl("get", "leases", "-n", "rdd-system", "-o", "name")
    assert "manager-rdd" not in leases
    webhooks = world.kubectl("get", "validatingwebhookconfigurations", "-o", "name")
    assert "notary-validator" not in webhooks
    free.begin_rdd()  # immediately: all leases were released
    free.notarise("second")
    world.until(lambda: free.record() == ["first", "second"])


def test_controllers_of_the_daemon_are_skipped(programs: Programs) -> None:
    world = programs.world
    world.rdd("svc", "start", "--controllers=notary")
    program = programs.begin_rdd()
    assert programs.entries()["embedded"]["enabledControllers"] == ["notary"]
    assert programs.entries()["rdd"]["enabledControllers"] == ["configmapreplicaset", "hostinfo"]
    program.send_signal(signal.SIGINT)
    done = world.end(program)
    assert done.code == 0
    assert any(m.startswith('controller "notary" is run by "embedded-') for m in done.messages)


def test_program_without_controllers_to_run_exits_with_0(programs: Programs) -> None:
    programs.world.rdd("svc", "start")
    done = programs.run("rdd-controller")
    assert done.code == 0, done
    names = "notary, configmapreplicaset, hostinfo"
    assert done.messages[-1] == f"nothing to start: the daemon runs {names}"
    assert set(programs.entries()) == {"embedded"}


def test_program_that_is_stopped_during_its_start_cleans_up(free: Programs) -> None:
    def leases() -> str:
        return free.world.kubectl("get", "leases", "-n", "rdd-system", "-o", "name")

    program = free.begin("rdd-controller", LEASE)
    free.world.until(lambda: "manager-rdd" in leases())  # its heartbeat
    program.send_signal(signal.SIGTERM)
    assert free.world.end(program).code == 0
    assert "rdd" not in free.entries()
    assert "manager-rdd" not in leases()
    if "controller-notary" in leases():
        assert not free.lease("notary").get("holderIdentity")


# -- end of the control plane


def test_stopping_daemon_waits_for_programs(free: Programs) -> None:
    program = free.begin_rdd()
    free.world.rdd("svc", "stop")
    assert program.wait() == 0
    done = free.world.end(program)
    assert "the control plane is stopping: stopping" in done.messages
    assert "WARN" not in done.err and "level=warning" not in done.err  # an orderly shutdown
    free.world.rdd("svc", "start")
    leases = free.world.kubectl("get", "leases", "-n", "rdd-system", "-o", "name")
    assert "manager-rdd" not in leases


def test_stopping_daemon_waits_for_a_crashed_program_until_its_lease_expires(
    free: Programs,
) -> None:
    program = free.begin_rdd()
    program.kill()
    program.wait()
    free.world.rdd("svc", "stop", "--timeout=20s")


def test_programs_end_when_the_daemon_crashes(free: Programs) -> None:
    program = free.begin_rdd()
    free.world.crash()
    done = free.world.end(program)
    assert done.code == 0, done
    assert "the control plane has ended: stopping" in done.messages


def test_program_whose_entry_is_removed_ends(free: Programs) -> None:
    program = free.begin_rdd()
    patch = '{"data":{"rdd":null}}'
    name = ("configmap", "rdd-controller-manager", "-n", "rdd-system")
    free.world.kubectl("patch", *name, "--type=merge", "-p", patch)
    assert free.world.end(program).code == 0


# -- ownership


def test_second_program_of_the_same_name_is_rejected(free: Programs) -> None:
    first = free.begin_rdd()
    holder = free.lease("notary")["holderIdentity"]
    text = refusal(free.run("rdd-controller", LEASE))
    assert text == (
        f'controller "notary" is run by "{holder}": '
        'only one process at a time can be the manager "rdd"'
    )
    assert first.poll() is None
    assert free.lease("notary")["holderIdentity"] == holder


def test_one_of_several_concurrent_programs_reconciles(free: Programs) -> None:
    begun = [free.begin("rdd-controller", LEASE) for _ in range(3)]
    free.world.until(lambda: sum(p.poll() is not None for p in begun) == 2)
    alive = [p for p in begun if p.poll() is None]
    for program in begun:
        if program not in alive:
            assert refusal(free.world.end(program)).endswith('can be the manager "rdd"')
    free.notarise("once")
    free.world.until(lambda: free.record() == ["once"])
    assert len(alive) == 1


def test_killed_owner_is_replaced(free: Programs) -> None:
    first = free.begin_rdd()
    free.notarise("first")
    free.world.until(lambda: free.record() == ["first"])
    epoch = free.lease("notary")["leaseTransitions"]
    first.kill()
    free.begin_rdd()  # waits until the lease expires
    assert free.lease("notary")["leaseTransitions"] == epoch + 1
    free.notarise("second")  # admitted by the webhook of the new program
    free.world.until(lambda: free.record() == ["first", "second"])


def test_owner_that_was_frozen_changes_nothing_when_it_resumes(free: Programs) -> None:
    first = free.begin_rdd()
    free.notarise("first")
    free.world.until(lambda: free.record() == ["first"])
    first.send_signal(signal.SIGSTOP)
    free.begin_rdd()
    free.notarise("second")  # also queued in the sockets of the first
    free.world.until(lambda: free.record() == ["first", "second"])
    resources = ("notaries.rdd.rancherdesktop.io", "configmaps", "events")
    before = versions(free.world, *resources)
    first.send_signal(signal.SIGCONT)
    text = refusal_after_work(free.world.end(first))
    assert text.startswith('another process has become the manager "rdd"')
    assert versions(free.world, *resources) == before
    assert free.entries()["rdd"]["enabledControllers"] is not None


def versions(world: World, *resources: str) -> dict[str, str]:
    text = world.kubectl("get", ",".join(resources), "-n", "default", "-o", "json")
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for item in json.loads(text)["items"]
    }


def refusal_after_work(done: Done) -> str:
    assert done.code == 1, done
    assert done.last[0] == "fatal"
    return done.last[1]


# -- rejections


def test_program_without_a_daemon_fails_and_starts_none(programs: Programs) -> None:
    world = programs.world
    text = refusal(programs.run("rdd-controller"))
    assert text == f"{world.title} is not running; start it with `rdd service start`"
    assert not world.instance.dir.exists()
    world.rdd("svc", "start")
    world.crash()
    assert "is not running" in refusal(programs.run("rdd-controller"))
    assert world.pid() == 0


def test_unresponsive_daemon_is_named(programs: Programs) -> None:
    world = programs.world
    world.rdd("svc", "start", "--controllers=")
    os.kill(world.pid(), signal.SIGSTOP)
    try:
        text = refusal(programs.run("rdd-controller"))
    finally:
        os.kill(world.pid(), signal.SIGCONT)
    server = load(world.instance.config).server
    assert text.startswith(f"{world.title} does not respond at {server}: ")


def damaged(world: World) -> None:
    world.instance.config.write_text("{")


def unreadable(world: World) -> None:
    world.instance.config.unlink()
    world.instance.config.mkdir()


def missing(world: World) -> None:
    world.instance.config.unlink()


def foreign(world: World) -> None:
    other = world.named("7")
    other.rdd("svc", "start")
    world.instance.config.write_bytes(other.instance.config.read_bytes())


def outdated(world: World) -> None:
    path = world.instance.config
    token = load(path).token
    path.write_text(path.read_text().replace(token, "x" * len(token)))


def of_another_version(world: World) -> None:
    path = world.instance.record_file
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "version": "v0.0.1"}))


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        pytest.param(damaged, "config.yaml: yaml: ", id="damaged"),
        pytest.param(unreadable, "config.yaml: Is a directory", id="unreadable"),
        pytest.param(missing, "config.yaml: No such file or directory", id="missing"),
        pytest.param(foreign, "is the kubeconfig of another server", id="foreign"),
        pytest.param(outdated, "responds with 401", id="wrong token"),
        pytest.param(of_another_version, "runs version v0.0.1, this is version", id="version"),
    ],
)
def test_kubeconfig_of_another_server_is_rejected(
    programs: Programs, break_it: Callable[[World], None], said: str
) -> None:
    programs.world.rdd("svc", "start", "--controllers=")
    break_it(programs.world)
    text = refusal(programs.run("rdd-controller"))
    assert said in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--nonsense",), "unknown flag: --nonsense", id="flag"),
        pytest.param(("now",), 'rdd-controller takes flags only, not "now"', id="argument"),
        pytest.param(("--health-port=70000",), "invalid --health-port 70000", id="port"),
        pytest.param(("--metrics-port=x",), 'invalid argument "x"', id="no number"),
        pytest.param(("--lease-duration=1500ms",), "allowed: whole seconds", id="lease"),
        pytest.param(("--instance=../x",), 'invalid instance name "../x"', id="instance"),
    ],
)
def test_invalid_flags_are_rejected(programs: Programs, words: tuple[str, ...], said: str) -> None:
    assert said in refusal(programs.run("rdd-controller", *words))


def test_program_waits_for_a_starting_daemon(programs: Programs) -> None:
    world = programs.world
    world.rdd("svc", "start", "--wait=false", "--controllers=", RDD_TEST_PAUSE="requirements")
    world.until(lambda: 'msg="paused at requirements"' in world.log())
    program = programs.begin("rdd-controller")
    world.rdd("svc", "stop")
    text = refusal(world.end(program))
    assert text.endswith(("is stopping", "is not running; start it with `rdd service start`"))


@pytest.mark.parametrize("group", ["rdd", "app", "lima", "containers", "mock"])
def test_every_program_has_help(programs: Programs, group: str) -> None:
    done = programs.run(f"{group}-controller", "--help")
    assert done.code == 0
    assert f"{group}-controller [flags]" in done.out
    assert "--metrics-port" in done.out
    done = programs.run(f"{group}-controller", "--version")
    assert done.out.startswith("v")


def test_lima_controller_is_a_host_agent_too(programs: Programs) -> None:
    done = programs.run("lima-controller", "hostagent")
    assert done.code == 2, done


def test_endpoints_of_a_program_are_reached_through_the_api(programs: Programs) -> None:
    world = programs.world
    world.rdd("svc", "start", "--controllers=*,-demo")
    program = programs.begin("app-controller", LEASE)
    world.until(lambda: "app" in programs.entries())
    entry = programs.entries()["app"]
    assert entry["enabledControllers"] == ["demo"]
    assert entry["enabledPassthroughs"] == {"demo": ["hello", "websocket"]}
    world.until(lambda: status(world) == 200)
    with pytest.raises(urllib.error.HTTPError) as refused:  # without the API server's secret
        urllib.request.urlopen(entry["passthroughEndpoint"] + "demo/hello/")
    assert refused.value.code == 401
    refused.value.close()
    program.send_signal(signal.SIGTERM)
    assert world.end(program).code == 0
    assert status(world) == 503
    secrets = world.kubectl("get", "secrets", "-n", "rdd-system", "-o", "name")
    assert "passthrough" not in secrets


def status(world: World) -> int:
    """Return the response of the API for the endpoint."""
    try:
        with Probe(world.instance) as probe:
            probe.text("/passthrough/demo/hello/")
    except NotReady as error:
        return error.status
    return 200
