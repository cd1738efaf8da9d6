# SPDX-License-Identifier: Apache-2.0
"""Tools are fetched with consent, verified and run; an engine is upgraded with what it has.

The programs are real: a newer docker.io, Compose and Buildx of Debian (`make parts`), which a local
server offers as a mirror. The old engine is that of this host; runc is always that one.
"""

import os
import pty
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from tests.e2e.app.host_app import conditions, run_docker
from tests.e2e.app.test_app_host import world  # noqa: F401  # fixture
from tests.e2e.machine.host_world import image
from tests.e2e.service.service_world import World
from tests.programs import run_program, start_program
from tests.publisher import GATED_BYTES, Publisher, archive, publishing

from rdd.toolbox.catalogue import Catalogue, platform_of
from rdd.toolbox.installation import Toolbox

IN_ORDER = True
COMPOSE, BUILDX, DOCKER, ENGINE = "2.26.1", "0.13.1", "26.1.5", "26.1.5"


def urls(tool: str, version: str) -> list[str]:
    system = os.uname()
    platform = platform_of(system.sysname, system.machine)
    return [file.url for file in Catalogue.shipped().tool(tool).files(version, platform)]


def checksums_of(tool: str, version: str) -> str:
    system = os.uname()
    platform = platform_of(system.sysname, system.machine)
    (file,) = Catalogue.shipped().tool(tool).files(version, platform)
    return file.checksum_url


def toolbox(world: World) -> Toolbox:  # noqa: F811
    return Toolbox(world.instance.tools_dir)


def installed(world: World) -> set[tuple[str, str]]:  # noqa: F811
    return {(one.tool, one.version) for one in toolbox(world).installed()}


@pytest.fixture(scope="module")
def plugins(newer_tools: Path) -> Path:
    return newer_tools / "usr" / "libexec" / "docker" / "cli-plugins"


@pytest.fixture(scope="module")
def mirror(plugins: Path) -> Iterator[Publisher]:
    with publishing() as found:
        for tool, version, program in (
            ("compose", COMPOSE, "docker-compose"),
            ("buildx", BUILDX, "docker-buildx"),
        ):
            (url,) = urls(tool, version)
            digest = found.publish(url, (plugins / program).read_bytes())
            name = url.rpartition("/")[2]
            text = f"{digest.removeprefix('sha256:')} *{name}\n"
            found.publish(checksums_of(tool, version), text.encode())
        yield found


@pytest.fixture(scope="module")
def engine_digests(mirror: Publisher, newer_tools: Path) -> dict[str, str]:
    """Publish the archives of Docker; return their digests by file name."""
    programs = {
        f"docker/{name}": newer_tools / "usr" / place / name
        for place, names in (
            ("sbin", ("dockerd", "docker-proxy")),
            ("bin", ("docker", "containerd", "containerd-shim-runc-v2", "ctr")),
        )
        for name in names
    }
    for name in ("runc", "docker-init"):
        path = shutil.which(name)
        # Only `docker run --init` needs docker-init, which not every package has.
        programs[f"docker/{name}"] = Path(path or "/bin/true")
    # Rootless extras are of no use to root, who runs this test.
    extras = {"docker-rootless-extras/rootlesskit": Path("/bin/true")}
    main, rootless = urls("engine", ENGINE)
    return {
        main.rpartition("/")[2]: mirror.publish(main, archive(programs)),
        rootless.rpartition("/")[2]: mirror.publish(rootless, archive(extras)),
    }


def test_nothing_is_fetched_without_consent(world: World, mirror: Publisher) -> None:  # noqa: F811
    world.rdd("set", "running=false", f"downloads.mirror={mirror.url}")
    done = world.try_rdd("tools", "install", f"compose@{COMPOSE}")
    assert (done.code, done.last[1]) == (
        1,
        f"compose {COMPOSE} (Docker Compose, Apache-2.0): not fetched without consent; add --yes, "
        "or run: rdd set downloads.automatic=true",
    )
    assert mirror.requests == []
    assert not toolbox(world).root.exists()


def test_unverified_file_needs_a_digest(world: World, mirror: Publisher) -> None:  # noqa: F811
    done = world.try_rdd("tools", "install", "--yes", f"docker@{DOCKER}")
    assert done.code == 1
    assert "its publisher has no checksums" in done.last[1]
    assert f"--digest docker-{DOCKER}.tgz=sha256:…" in done.last[1]
    assert mirror.requests == []


@pytest.mark.parametrize(
    ("listed", "content", "problem"),
    [
        pytest.param(b"", b"", "the server answered 404", id="missing"),
        pytest.param(b"other", b"program", "expected sha256:", id="wrong checksum"),
        pytest.param(b"program", None, "the server answered 404", id="missing program"),
    ],
)
def test_failed_fetch_installs_nothing(
    world: World,  # noqa: F811
    mirror: Publisher,
    listed: bytes,
    content: bytes | None,
    problem: str,
) -> None:
    version = "2.1.0"
    (url,) = urls("compose", version)
    if listed:
        digest = mirror.publish(url, listed).removeprefix("sha256:")
        name = url.rpartition("/")[2]
        mirror.publish(checksums_of("compose", version), f"{digest}  {name}\n".encode())
        if content is None:
            path = next(key for key in mirror.files if key.endswith(url.partition("//")[2]))
            del mirror.files[path]
        else:
            mirror.publish(url, content)
    done = world.try_rdd("tools", "install", "--yes", f"compose@{version}")
    assert done.code == 1
    assert problem in done.last[1]
    assert done.last[1].endswith("nothing was installed")
    assert installed(world) == set()
    world.kubectl("delete", "resources", "--all")
    assert world.kubectl("get", "checkouts", "-A", "-o", "name") == ""


def test_one_failed_fetch_installs_none_of_several_tools(
    world: World,  # noqa: F811
    mirror: Publisher,
) -> None:
    world.rdd("set", "downloads.automatic=true")  # consent for all
    done = world.try_rdd("tools", "install", f"buildx@{BUILDX}", "compose@2.1.1")
    assert done.code == 1
    assert done.last[1].startswith("compose 2.1.1: failed to download")
    assert any("buildx" in line for line in mirror.requests)
    assert installed(world) == set()
    world.rdd("set", "downloads.automatic=false")
    world.rdd("cache", "gc", "--max-age=0s", "--yes")
    world.kubectl("delete", "resources", "--all")


def test_interrupted_fetch_resumes(world: World, mirror: Publisher) -> None:  # noqa: F811
    mirror.requests.clear()
    mirror.gate.clear()
    with start_program(
        [str(world.script), "tools", "install", "--yes", f"compose@{COMPOSE}"],
        env=world.environment(),
    ) as program:
        cache = world.home / ".cache" / "rdd" / "files" / "partial"
        world.until(lambda: any(p.stat().st_size >= 1 << 20 for p in cache.glob("*")))
        program.send_signal(signal.SIGINT)
        assert program.wait() == 130
    assert world.kubectl("get", "checkouts", "-A", "-o", "name") == ""
    mirror.gate.set()
    done = world.rdd("tools", "install", "--yes", f"compose@{COMPOSE}")
    assert done.out.startswith(f"compose {COMPOSE} installed: {toolbox(world).root}")
    ranges = [line.partition("bytes=")[2] for line in mirror.requests if "bytes=" in line]
    assert ranges
    assert all(0 < int(one.rstrip("-")) <= GATED_BYTES for one in ranges)


def test_question_names_source_and_size_and_no_plugin_is_linked_unasked(
    world: World,  # noqa: F811
    mirror: Publisher,
    plugins: Path,
) -> None:
    leader, follower = pty.openpty()
    command = [str(world.script), "tools", "install", f"buildx@{BUILDX}"]
    with start_program(
        command, env=world.environment(), stdin=follower, stdout=follower, stderr=follower
    ) as program:
        os.close(follower)
        shown = b""
        for question, answer in ((b"install it? [y/N]", b"y\n"), (b"for docker? [y/N]", b"n\n")):
            while question not in shown:
                shown += os.read(leader, 4096)
            os.write(leader, answer)
        with suppress(OSError):  # the end of the program closes the terminal
            while os.read(leader, 4096):
                pass
        assert program.wait() == 0
    os.close(leader)
    assert f"buildx {BUILDX} (Docker Buildx, Apache-2.0)".encode() in shown
    assert urls("buildx", BUILDX)[0].encode() in shown
    size = (plugins / "docker-buildx").stat().st_size
    assert f"({size / (1 << 20):.1f} MiB, checksum of the publisher)".encode() in shown
    assert not (world.home / ".docker" / "cli-plugins").exists()


def test_docker_and_its_plugins_run(
    world: World,  # noqa: F811
    engine_digests: dict[str, str],
) -> None:
    (url,) = urls("docker", DOCKER)
    digest = engine_digests[url.rpartition("/")[2]]
    world.rdd("tools", "install", "--yes", f"--digest={digest}", f"docker@{DOCKER}")
    config = world.home / "config"
    mine = config / "cli-plugins" / "docker-compose"
    mine.parent.mkdir(parents=True)
    mine.write_text("#!/bin/sh\n")
    variables = {"DOCKER_CONFIG": str(config)}
    tools = ("tools", "install", "--link-plugins", f"buildx@{BUILDX}", f"compose@{COMPOSE}")
    done = world.rdd(*tools, **variables)
    assert any(f'"{mine}" is another docker-compose' in text for text in done.messages)
    assert not mine.is_symlink()
    mine.unlink()
    world.rdd(*tools, **variables)
    assert not (world.home / ".docker" / "cli-plugins").exists()
    world.rdd(*tools)
    environment = world.environment(PATH=f"{toolbox(world).bin_dir}:{os.environ['PATH']}")
    for words, expected in (
        (("--version",), f"Docker version {DOCKER}"),
        (("buildx", "version"), BUILDX),
        (("compose", "version", "--short"), COMPOSE),
    ):
        done_words = run_program(["docker", *words], env=environment, check=True)
        assert expected in done_words.stdout
    listed = world.rdd("tools", "ls").out
    assert f"{COMPOSE}*" in listed


def test_update_reports_what_the_publishers_list(
    world: World,  # noqa: F811
    mirror: Publisher,
) -> None:
    for tool in ("compose", "buildx", "docker"):
        mirror.publish(Catalogue.shipped().tool(tool).releases_url, b"")
    mirror.publish(Catalogue.shipped().tool("compose").releases_url, b'[{"tag_name": "v99.1.0"}]')
    out = world.rdd("update", "--check").out.splitlines()
    assert f"compose 99.1.0 is available (installed: {COMPOSE})" in out
    assert any(line.startswith("docker 28.5.1 is available") and "--digest" in line for line in out)
    assert out[-1].startswith("rdd ")
    assert ("compose", "99.1.0") not in installed(world)
    for path in [path for path in mirror.files if path.endswith("/releases")]:
        del mirror.files[path]
    done = world.try_rdd("update")
    assert (done.code, "cannot look for newer versions" in done.last[1]) == (1, True)


def test_unknown_engine_is_refused_with_the_allowed_ones(world: World) -> None:  # noqa: F811
    done = world.try_rdd("set", "containerEngine.version=1.2.3")
    assert done.code == 3
    assert 'spec.containerEngine.version "1.2.3" is not supported; supported are' in done.last[1]
    assert "28.5.1" in done.last[1]


def server_version(world: World, docker: Path) -> str:  # noqa: F811
    return run_docker(world, docker, "version", "--format", "{{.Server.Version}}")


def test_engine_is_upgraded_with_containers_volumes_and_images(
    world: World,  # noqa: F811
    docker: Path,
    engine_digests: dict[str, str],
    dockerd_path: Path,
) -> None:
    world.rdd("set", "running=true")
    old = server_version(world, docker)
    assert old in run_program([dockerd_path, "--version"], check=True).stdout
    run_docker(world, docker, "import", "-", "tools", text=image())
    run_docker(world, docker, "volume", "create", "data")
    run_docker(
        *(
            world,
            docker,
            "run",
            "--name=kept",
            "--restart=always",
            "--stop-timeout=0",
            "-d",
            "-v",
            "data:/data",
        ),
        *("tools", "/bin/sh", "-c", "echo text >>/data/file; exec sleep 86400"),
    )
    before = run_docker(world, docker, "inspect", "kept", "--format={{.Id}} {{.Image}}")

    # A failed fetch leaves the running engine as it is.
    done = world.try_rdd("set", "--yes", "containerEngine.version=28.5.1")
    assert done.code == 1
    assert "its publisher has no checksums" in done.last[1]
    assert conditions(world)["Settled"] == ("False", "FetchFailed")
    assert server_version(world, docker) == old
    world.rdd("set", "containerEngine.version=")

    flags = [f"--digest={name}={digest}" for name, digest in engine_digests.items()]
    world.rdd("tools", "install", "--yes", *flags, f"engine@{ENGINE}")
    assert server_version(world, docker) == old
    world.rdd("set", f"containerEngine.version={ENGINE}")
    assert server_version(world, docker).startswith(ENGINE)
    assert run_docker(world, docker, "inspect", "kept", "--format={{.Id}} {{.Image}}") == before
    world.until(
        lambda: run_docker(world, docker, "exec", "kept", "cat", "/data/file") == "text\ntext"
    )
    assert run_docker(world, docker, "run", "--rm", "tools", "echo", "hello") == "hello"
    engine = toolbox(world).directory("engine", ENGINE)
    assert _programs_of(world) >= {str(engine / "dockerd"), str(engine / "containerd")}

    done = world.try_rdd("tools", "remove", "--yes", "engine")
    assert (done.code, f"the App uses engine {ENGINE}" in done.last[1]) == (1, True)


def test_compose_starts_a_project(world: World, docker: Path, tmp_path: Path) -> None:  # noqa: F811
    service = {"image": "tools", "command": ["httpd", "-f", "-p", "80", "-h", "/www"]}
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump({"services": {"web": service}}))
    words = ("run", "docker", "compose", "--project-directory", str(tmp_path))
    world.rdd(*words, "up", "--detach")
    shown = run_docker(world, docker, "ps", "--format={{.Image}} {{.Names}}")
    assert any(line.startswith("tools ") and "-web-1" in line for line in shown.splitlines())
    world.rdd(*words, "down", "--timeout=0")


def test_containerd_is_that_of_the_version_too(world: World) -> None:  # noqa: F811
    world.rdd("set", "containerEngine.name=containerd")
    containerd = toolbox(world).directory("engine", ENGINE) / "containerd"
    assert str(containerd) in _programs_of(world)


def test_removed_tools_leave_nothing(world: World, docker: Path) -> None:  # noqa: F811
    world.rdd("set", "containerEngine.version=", "containerEngine.name=moby")
    assert run_docker(world, docker, "inspect", "kept", "--format={{.Name}}") == "/kept"
    link = world.home / ".docker" / "cli-plugins" / "docker-compose"
    assert link.exists()
    world.rdd("tools", "remove", "--yes", "engine", "compose", "buildx", "docker")
    assert installed(world) == set()
    assert not link.is_symlink()
    assert list(toolbox(world).bin_dir.iterdir()) == []


def _programs_of(world: World) -> set[str]:  # noqa: F811
    """Return the programs that run below the home of a world."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/exe"):
        with suppress(OSError):
            program = str(path.readlink())
            if program.startswith(str(world.home)):
                found.add(program)
    return found
