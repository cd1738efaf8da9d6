# SPDX-License-Identifier: Apache-2.0
"""limactl: availability, messages, and the strictness of the fake."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.programs import run_program
from tests.unit.vm.drivers.lima_world import TEMPLATE, install, program

from rdd.host.errors import HostError
from rdd.vm.agent.run import make_driver
from rdd.vm.drivers import catalog
from rdd.vm.drivers.lima import availability, limactl
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.selection import driver_for
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template import parse

Environment = dict[str, str]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """The environment of an ordinary user with only limactl and qemu."""
    monkeypatch.setattr(availability, "is_root", lambda: False)
    binaries = install(tmp_path)
    return {"PATH": str(binaries), "FAKE_BEHAVIOUR": str(tmp_path / "behaviour.json")}


def print_version(environment: Environment, text: str) -> None:
    program(Path(environment["PATH"]) / "limactl", f"echo '{text}'")


def refusal(environment: Environment, template: str = "") -> tuple[str, str]:
    wanted = parse(template) if template else None
    answer = catalog.availability("lima", environment, wanted)
    assert answer.usable is not bool(answer.reason)
    return answer.reason, answer.fix


# -- availability


def test_installed_limactl_is_usable(environment: Environment) -> None:
    assert refusal(environment) == ("", "")
    assert refusal(environment, TEMPLATE) == ("", "")
    assert driver_for(parse(TEMPLATE), environment) == "lima"


@pytest.mark.parametrize(
    ("platform", "fix"),
    [
        ("darwin", "brew install lima"),
        ("linux", "see https://lima-vm.io/docs/installation/"),
    ],
)
def test_missing_limactl_is_reported_with_the_fix(
    platform: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert refusal({"PATH": "/nowhere"}) == ("limactl is not installed", fix)


def test_root_cannot_use_limactl(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "is_root", lambda: True)
    assert refusal(environment)[0] == "limactl refuses to run as root"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        pytest.param("limactl version 2.0.0", "", id="oldest"),
        pytest.param("limactl version 2.1.0-rc.1-7-gabcdef", "", id="between releases"),
        pytest.param("limactl version 3.0.0", "", id="newer"),
        pytest.param(
            "limactl version 1.2.1", "limactl 1.2.1 is too old, 2.0 is needed", id="too old"
        ),
        pytest.param(
            "limactl version <unknown>",
            'limactl --version printed no version: "limactl version <unknown>"',
            id="unknown",
        ),
        pytest.param("", 'limactl --version printed no version: ""', id="nothing"),
    ],
)
def test_old_or_unreadable_version_is_rejected(
    environment: Environment, output: str, reason: str
) -> None:
    print_version(environment, output)
    assert refusal(environment)[0] == reason


def test_version_is_read_again_after_an_update(environment: Environment) -> None:
    print_version(environment, "limactl version 1.2.1 (Homebrew)")
    assert "too old" in refusal(environment)[0]
    print_version(environment, "limactl version 2.0.0")
    assert refusal(environment)[0] == ""


def test_limactl_that_cannot_be_executed_is_not_usable(environment: Environment) -> None:
    path = Path(environment["PATH"]) / "limactl"
    program(path, 'echo \'time="now" level=fatal msg="no such library"\' >&2; exit 127')
    assert refusal(environment)[0] == "limactl --version failed: no such library"
    path.write_bytes(b"\x7fELF but not really")
    assert refusal(environment)[0].startswith(f'failed to start "{path}"')


def test_vz_needs_macos(environment: Environment) -> None:
    assert refusal(environment, TEMPLATE.replace("qemu", "vz", 1))[0] == (
        "machines of vmType vz need macOS"
    )


def test_lima_needs_the_emulator_of_the_template(environment: Environment) -> None:
    (Path(environment["PATH"]) / f"qemu-system-{os.uname().machine}").unlink()
    assert "limactl needs qemu-system-" in refusal(environment, TEMPLATE)[0]
    assert refusal(environment) == refusal(environment, TEMPLATE)
    assert refusal(environment, f"arch: riscv64\n{TEMPLATE}") == (
        "limactl needs qemu-system-riscv64, which is missing",
        "install QEMU",
    )
    environment["QEMU_SYSTEM_RISCV64"] = "/opt/qemu"
    assert refusal(environment, f"arch: riscv64\n{TEMPLATE}")[0] == ""


def test_own_guest_image_excludes_lima(environment: Environment) -> None:
    environment["RDD_GUEST_IMAGE"] = "/image.qcow2"
    assert "RDD_GUEST_IMAGE" in refusal(environment, TEMPLATE)[0]
    assert "RDD_GUEST_IMAGE" in refusal(environment)[0]


# -- execution and messages


def test_rejects_rdds_agent_for_lima_machines(tmp_path: Path) -> None:
    context = DriverContext(
        directory=InstanceDirectory(tmp_path / "vm"),
        template=parse(TEMPLATE),
        environment={},
        warn=print,
        degrade=print,
    )
    with pytest.raises(HostError, match='"vm" is run by the driver lima, which has its own host'):
        make_driver("lima", context)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param('{"level":"info","msg":"Starting","time":"x"}', "Starting", id="JSON"),
        pytest.param(
            '{"level":"info","location":"https://a/b","msg":"Attempting to download the image"}',
            "Attempting to download the image https://a/b",
            id="location",
        ),
        pytest.param('{"msg":"one\\n two\\n\\nthree"}', "one; two; three", id="lines"),
        pytest.param('time="x" level=fatal msg="no \\"disk\\""', 'no "disk"', id="text"),
        pytest.param('time="x" level=fatal msg="a\\x b"', "a\\x b", id="odd escape"),
        pytest.param("  12.3 MiB / 500 MiB  ", "12.3 MiB / 500 MiB", id="progress"),
        pytest.param('{"time":"x"}', '{"time":"x"}', id="no message"),
        pytest.param("{half", "{half", id="no JSON"),
        pytest.param("[1]", "[1]", id="list"),
        pytest.param("", "", id="empty"),
    ],
)
def test_message_of_a_log_line(line: str, message: str) -> None:
    assert limactl.message_of(line.encode()) == message


async def run(environment: Environment, script: str, tmp_path: Path) -> list[str]:
    program(Path(environment["PATH"]) / "limactl", f"PATH=/usr/bin:/bin\n{script}")
    output: list[str] = []
    await limactl.run(
        "create",
        directory=InstanceDirectory(tmp_path / "lima" / "vm"),
        environment=environment,
        progress=output.append,
    )
    return output


async def test_progress_bars_are_reported_as_they_change(
    environment: Environment, tmp_path: Path
) -> None:
    assert await run(environment, r"printf '10%%\r20%%\r\n30%%' >&2", tmp_path) == [
        "10%",
        "20%",
        "30%",
    ]


async def test_failure_has_the_last_messages_or_the_exit_status(
    environment: Environment, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match=r"^limactl create failed: b / c / d$"):
        await run(environment, "for i in a b c d; do echo $i >&2; done; exit 1", tmp_path)
    with pytest.raises(HostError, match=r"^limactl create failed: exit status 7$"):
        await run(environment, "exit 7", tmp_path)


async def test_endless_line_is_discarded(environment: Environment, tmp_path: Path) -> None:
    output = await run(
        environment, "head -c 3000000 /dev/zero >&2; echo >&2; echo end >&2", tmp_path
    )
    assert output[-1] == "end" and len(output[0]) < 2_000_000


async def test_limactl_gets_lima_home_and_no_terminal(
    environment: Environment, tmp_path: Path
) -> None:
    output = await run(environment, 'echo "$LIMA_HOME $*" >&2', tmp_path)
    assert output == [f"{tmp_path / 'lima'} --log-format=json --tty=false create"]


# -- the fake


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param("create --fast x.yaml", "unknown flag: --fast", id="flag"),
        pytest.param("stop --foreground vm", "unknown flag: --foreground", id="flag of another"),
        pytest.param("start -x vm", "unknown shorthand flag: 'x' in -x", id="short flag"),
        pytest.param("frobnicate", 'unknown command "frobnicate" for "limactl"', id="command"),
        pytest.param("create --name", "flag needs an argument: --name", id="no value"),
        pytest.param(
            "--tty=maybe list",
            'invalid argument "maybe" for "--tty" flag: strconv.ParseBool: parsing "maybe": '
            "invalid syntax",
            id="no boolean",
        ),
        pytest.param(
            "create a b",
            "\"limactl create\" accepts at most 1 arg(s), received 2.; See 'limactl create --help'."
            "; Usage:  limactl create FILE.yaml|URL [flags]; Create an instance of Lima",
            id="too many",
        ),
        pytest.param("list", "must not run as the root user", id="root"),
    ],
)
def test_fake_rejects_what_limactl_rejects(
    environment: Environment, arguments: str, message: str
) -> None:
    if message.startswith("must not") and os.geteuid() != 0:
        pytest.skip("this is for root")
    done = run_program([f"{environment['PATH']}/limactl", *arguments.split()], env=environment)
    assert done.returncode == 1
    assert limactl.message_of(done.stderr.encode()) == message


def test_fake_rejects_an_existing_instance(tmp_path: Path, environment: Environment) -> None:
    Path(environment["FAKE_BEHAVIOUR"]).write_text(json.dumps({"as_root": True}))
    template = tmp_path / "vm.yaml"
    template.write_text(TEMPLATE)
    (tmp_path / "lima" / "vm").mkdir(parents=True)
    done = run_program(
        [f"{environment['PATH']}/limactl", "create", str(template)],
        env={**environment, "LIMA_HOME": str(tmp_path / "lima")},
    )
    assert (done.returncode, "already exists" in done.stderr) == (1, True)
