# SPDX-License-Identifier: Apache-2.0
"""Login service, support bundle, published tools."""

import json
import os
import plistlib
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.e2e.service.service_world import World
from tests.programs import run_program

from rdd.daemon.service.login import LoginService
from rdd.instance import Instance

SECRETS = ("hunter2-secret", "aHVudGVyMi1zZWNyZXQ=")


def read(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as tar:
        found = {}
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read().decode()
        return found


# -- login


def test_install_writes_a_unit_that_systemd_accepts(
    world: World, real_part: Callable[[str], Path]
) -> None:
    analyze = real_part("systemd-analyze")
    world.variables["KUBECONFIG"] = '/odd "path" with $HOME and 100%'
    service = LoginService(world.instance, (str(world.script),), world.environment())
    service.install()
    unit = world.home / ".config/systemd/user/rancher-desktop-2.service"
    assert service.path == unit
    verified = run_program(
        [analyze, "--user", "verify", str(unit)],
        env=world.environment(XDG_RUNTIME_DIR=str(world.home)),
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    link = unit.parent / "default.target.wants" / unit.name
    assert link.resolve() == unit.resolve()
    service.install()  # idempotent
    assert world.rdd("svc", "uninstall").messages == [
        f"{world.title} will not start at login any more"
    ]
    assert not os.path.lexists(link)
    assert not unit.exists()
    assert world.rdd("svc", "uninstall").messages == [f"{world.title} was not installed"]


def test_install_needs_a_service_manager(world: World, tmp_path: Path) -> None:
    done = world.try_rdd("svc", "install")
    if Path("/run/systemd/system").is_dir():
        assert done.code == 0
        world.rdd("svc", "uninstall")
        return
    assert done.code == 1
    assert "no service manager: systemd does not run on this host" in done.last[1]
    assert list(world.home.iterdir()) == []
    service = LoginService(world.instance, ("/opt/rdd",), {})
    service.check_manager(booted=tmp_path)


def test_supervisor_is_notified_of_readiness(world: World) -> None:
    world.rdd("svc", "create", "--secure-port=0")
    path = world.home / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(120)
        process = world.begin("svc", "serve", "--saved-arguments", NOTIFY_SOCKET=str(path))
        assert sock.recv(1000).startswith(b"READY=1")
        world.write_first()
        process.terminate()
        assert sock.recv(1000) == b"STOPPING=1"
    assert world.end(process).code == 0


def test_launchd_agent_is_a_valid_property_list(tmp_path: Path) -> None:
    instance = Instance("2", tmp_path, "darwin")
    service = LoginService(instance, ("/opt/rdd",), {"PATH": "/bin", "SECRET": "x"})
    service.install()
    found = plistlib.loads(service.path.read_bytes())
    assert service.path.name == "io.rancherdesktop.rdd.2.plist"
    assert found["ProgramArguments"] == [
        *("/opt/rdd", "--instance", "2", "service", "serve", "--saved-arguments")
    ]
    assert found["EnvironmentVariables"] == {"PATH": "/bin"}
    assert found["RunAtLoad"] is True
    assert service.uninstall()
    assert not service.uninstall()


# -- support bundle


def test_bundle_is_complete_and_without_secrets(world: World, tmp_path: Path) -> None:
    world.variables |= {"MY_TOKEN": "abcdefgh-token", "HTTPS_PROXY": "http://me:pa55word@proxy:1"}
    world.rdd("svc", "start", "--log-level=debug")
    world.kubectl("create", "secret", "generic", "s", f"--from-literal=password={SECRETS[0]}")
    manifest = tmp_path / "secret.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: applied}\n"
        f"stringData: {{key: {SECRETS[0]}}}\n"
    )
    world.kubectl("apply", "-f", str(manifest))
    world.kubectl("create", "configmap", "c", "--from-literal=note=Bearer abc.def-ghi")
    bundles = {"running": tmp_path / "running.tar.gz", "down": tmp_path / "down.tar.gz"}
    assert world.rdd("support-bundle", str(bundles["running"])).out == f"{bundles['running']}\n"
    config = world.instance.config.read_text()
    tokens = [line.split()[-1] for line in config.splitlines() if "token:" in line]
    assert len(tokens) == 2
    with (world.instance.log_dir / "rdd.stderr.log").open("a") as log:
        log.write(f"careless line with {tokens[0]} and Authorization: Bearer xyz123456\n")
    world.crash()
    world.rdd("support-bundle", str(bundles["down"]))
    for state, path in bundles.items():
        assert path.stat().st_mode & 0o777 == 0o600
        found = read(path)
        text = "\n".join(found.values())
        for secret in (*SECRETS, *tokens, "pa55word", "abcdefgh-token", "xyz123456", "abc.def-ghi"):
            assert secret not in text, (state, secret)
        assert "PRIVATE KEY" not in text
        assert json.loads(found["versions.json"])["rdd"]["Version"] == world.rdd("version").out[:-1]
        assert json.loads(found["environment.json"])["command"]["MY_TOKEN"] == "REDACTED"
        assert "is ready on" in found["logs/rdd.stderr.log"]
        assert "state.db" in found["files.txt"]
        secrets = next(v for k, v in found.items() if k.startswith("objects/secrets"))
        assert {item["metadata"]["name"] for item in json.loads(secrets)} == {"s", "applied"}
    assert "problems.txt" in read(bundles["down"])
    assert "metrics.txt" in read(bundles["running"])


def test_bundle_of_a_broken_instance_lists_problems(world: World) -> None:
    world.rdd("svc", "create")
    world.instance.database.parent.mkdir()
    world.instance.database.write_bytes(os.urandom(4096))
    bundle = Path(world.rdd("support-bundle", str(world.home / "b.tar.gz")).out.strip())
    assert "the database was not read" in read(bundle)["problems.txt"]
    done = world.try_rdd("support-bundle", str(world.home / "no" / "where.tar.gz"))
    assert done.code == 1
    assert "No such file or directory" in done.last[1]


# -- bin


def test_hard_links_are_published_without_symbolic_links(world: World) -> None:
    world.rdd("svc", "start", RDD_NO_SYMLINKS="1")
    world.until(lambda: (world.instance.bin_dir / ".published.json").exists())
    tool = world.instance.bin_dir / "rdd"
    assert not tool.is_symlink()
    done = run_program([tool, "version"])
    assert done.stdout == world.rdd("version").out


def test_stop_waits_for_a_shutdown_notification(world: World) -> None:
    world.rdd("svc", "start", "--controllers=")
    namespace = ("-n", "rdd-system")
    world.kubectl("create", "configmap", "worker", *namespace)
    world.kubectl(
        "label", "configmap", "worker", "shutdown.rancherdesktop.io/notification=true", *namespace
    )
    stopping = world.begin("svc", "stop")
    field = r"jsonpath={.metadata.annotations.shutdown\.rancherdesktop\.io/shutdown}"
    world.until(lambda: world.kubectl("get", "cm", "worker", *namespace, "-o", field) == "pending")
    assert stopping.poll() is None
    world.kubectl(
        "annotate", "--overwrite", "configmap", "worker",
        "shutdown.rancherdesktop.io/shutdown=complete", *namespace,
    )  # fmt: skip
    assert world.end(stopping).code == 0
    world.rdd("svc", "start", "--controllers=")
    assert "worker" not in world.kubectl("get", "configmaps", "-o", "name", *namespace)
