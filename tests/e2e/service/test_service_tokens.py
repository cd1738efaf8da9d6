# SPDX-License-Identifier: Apache-2.0
"""Clients survive restarts with the kubeconfig they have; rotation ends that."""

import json
import tarfile
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.programs import PIPE, run_program, start_program


def kubectl(world: World, config: Path, *words: str) -> str:
    """Run the real kubectl with a copy of the kubeconfig and return what it prints."""
    done = run_program(
        [world.kubectl_path, "--kubeconfig", str(config), *words], env=world.environment()
    )
    return done.stdout + done.stderr


@pytest.fixture
def old_config(world: World, tmp_path: Path) -> Path:
    """The kubeconfig of a running daemon as a client has kept it."""
    world.rdd("service", "start", "--controllers=", "--secure-port=0")
    copy = tmp_path / "kept.yaml"
    copy.write_text(world.instance.config.read_text())
    return copy


def tokens_in(text: str) -> list[str]:
    return [line.split()[-1].strip('"') for line in text.splitlines() if "token:" in line]


def test_a_kept_kubeconfig_survives_stop_and_crash(world: World, old_config: Path) -> None:
    before = old_config.read_text()
    world.write_first()
    world.rdd("service", "stop")
    assert not world.instance.config.exists()
    world.rdd("service", "start", "--controllers=", "--secure-port=0")
    assert world.instance.config.read_text() == before
    assert "first" in kubectl(world, old_config, "get", "configmaps")
    world.crash()
    world.rdd("service", "start", "--controllers=", "--secure-port=0")
    assert world.instance.config.read_text() == before
    assert "first" in kubectl(world, old_config, "get", "configmaps")
    assert world.instance.tokens_file.stat().st_mode & 0o777 == 0o600


def test_rotation_invalidates_old_tokens_and_ends_their_watches(
    world: World, old_config: Path
) -> None:
    command = [str(world.kubectl_path), "--kubeconfig", str(old_config), "get", "namespaces"]
    watch = start_program([*command, "--watch-only", "-v=6"], env=world.environment(), stderr=PIPE)
    with watch as process:
        # kubectl logs the response to the watch when it has begun.
        assert process.stderr is not None
        for line in process.stderr:
            if "watch=true" in line:
                break
        done = world.rdd("service", "rotate-tokens")
        assert done.last[1].startswith(f"the tokens of {world.title} have been replaced")
        process.communicate()
    answer = kubectl(world, old_config, "get", "namespaces")
    assert "Unauthorized" in answer or "must be logged in" in answer
    world.write_first("after")
    new = world.instance.config.read_text()
    assert not set(tokens_in(new)) & set(tokens_in(old_config.read_text()))
    assert sorted(tokens_in(new)) == sorted(
        json.loads(world.instance.tokens_file.read_text()).values()
    )


def test_only_administrators_rotate_over_the_api(
    world: World, old_config: Path, tmp_path: Path
) -> None:
    body = tmp_path / "empty.json"
    body.write_text("{}")
    path = "--raw=/service/rotate-tokens"
    refused = kubectl(world, old_config, "--context=user", "create", path, "-f", str(body))
    assert "orbidden" in refused
    assert world.instance.config.read_text() == old_config.read_text()
    refused = kubectl(world, old_config, "get", "--raw=/service/rotate-tokens")
    assert "not allow" in refused


def test_rotation_reset_and_deletion_of_a_stopped_instance(world: World, old_config: Path) -> None:
    seen = {*tokens_in(old_config.read_text())}
    world.rdd("service", "stop")
    world.rdd("service", "rotate-tokens")
    seen |= {*json.loads(world.instance.tokens_file.read_text()).values()}
    world.rdd("service", "reset", "--wait")
    seen |= {*tokens_in(world.instance.config.read_text())}
    assert len(seen) == 6
    world.rdd("service", "delete")
    assert not world.instance.dir.exists()
    assert world.rdd("service", "rotate-tokens").last[1] == f"{world.title} does not exist"


def test_tokens_are_in_no_bundle_backup_or_log(
    world: World, old_config: Path, tmp_path: Path
) -> None:
    tokens = tokens_in(old_config.read_text())
    world.rdd("service", "rotate-tokens")
    tokens += tokens_in(world.instance.config.read_text())
    world.rdd("service", "stop")
    with (world.instance.log_dir / "rdd.stderr.log").open("a") as log:
        log.write(f"careless line with {tokens[-1]}\n")
    bundle = tmp_path / "bundle.tar.gz"
    world.rdd("support-bundle", str(bundle))
    with tarfile.open(bundle) as tar:
        found = [tar.extractfile(m) for m in tar.getmembers() if m.isfile()]
        content = b"".join(f.read() for f in found if f is not None)
    assert not any(t.encode() in content for t in tokens)
    (world.instance.log_dir / "rdd.stderr.log").write_text("")
    world.rdd("service", "reset", "--wait")
    world.rdd("service", "stop")
    allowed = {world.instance.tokens_file}
    for path in (*world.instance.dir.rglob("*"), *world.instance.log_dir.rglob("*")):
        if path.is_file() and path not in allowed:
            assert not any(t.encode() in path.read_bytes() for t in tokens), path


def test_a_token_file_authenticates_users(world: World, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('alice-token,alice,7,"system:masters,dev"\n')
    world.rdd("service", "start", "--", "--controllers=", f"--token-auth-file={tokens}")
    whoami = ("auth", "whoami", "-o", "json")
    config = tmp_path / "config.yaml"
    text = world.instance.config.read_text()
    for token in tokens_in(text):
        text = text.replace(token, "alice-token")
    config.write_text(text)
    found = json.loads(kubectl(world, config, *whoami))["status"]["userInfo"]
    assert (found["username"], found["uid"]) == ("alice", "7")
    assert found["groups"] == ["system:masters", "dev", "system:authenticated"]
    world.rdd("service", "rotate-tokens")
    assert "alice" in kubectl(world, config, *whoami)


def test_a_broken_token_file_fails_the_start_with_the_reason(world: World, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("alice-token,alice\n")
    done = world.try_rdd("service", "start", "--", "--controllers=", f"--token-auth-file={tokens}")
    assert done.code == 1
    assert "must have at least 3 columns" in done.err + world.log()
    assert "alice-token" not in done.err + world.log()
