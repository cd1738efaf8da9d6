# SPDX-License-Identifier: Apache-2.0
"""The cidata disk: its files and the ISO 9660 image."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.programs import run_program

from rdd.vm import cidata
from rdd.vm.cidata import Guest, Share, iso9660
from rdd.vm.template import HostFacts, parse, resolve
from rdd.vm.template.model import Template

FACTS = HostFacts(
    arch="x86_64", cpus=4, memory_bytes=8 << 30, user="anna", uid=501, home=Path("/home/anna")
)
GUEST = Guest(
    name="vm", instance_id="iid-1", keys=["ssh-ed25519 AAAA lima"], mac="52:55:55:00:00:01"
)


def template(text: str) -> Template:
    return resolve(parse(text), FACTS, name="vm", directory=Path("/lima/vm"), driver="qemu")


def files(text: str, guest: Guest = GUEST) -> dict[str, str]:
    found = cidata.files(template(text), guest)
    return {name: content.decode() for name, content in found.items()}


def sh(tmp_path: Path, name: str, text: str, expression: str) -> str:
    """Return the variables after a shell sourced a file."""
    (tmp_path / name).write_text(text)
    done = run_program(["sh", "-c", f". ./{name}; printf %s {expression}"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_user_data_has_user_key_and_boot_script() -> None:
    found = files("timezone: Europe/Berlin\n")
    assert found["meta-data"] == "instance-id: iid-1\nlocal-hostname: lima-vm\n"
    head, _, body = found["user-data"].partition("\n")
    assert head == "#cloud-config"
    data = json.loads(body)
    (user,) = data["users"]
    assert (user["name"], user["uid"], user["homedir"]) == ("anna", 501, "/home/anna.guest")
    assert user["ssh_authorized_keys"] == ["ssh-ed25519 AAAA lima"]
    (script,) = data["write_files"]
    assert script["path"].startswith("/var/lib/cloud/scripts/per-boot/")
    assert "/mnt/lima-cidata/boot.sh" in script["content"]
    ((*shell, early),) = data["bootcmd"]
    assert shell == ["sh", "-c"]
    assert "/mnt/lima-cidata/boot.sh environment" in early
    assert data["timezone"] == "Europe/Berlin"
    network = json.loads(found["network-config"])
    assert network["ethernets"]["eth0"]["match"] == {"macaddress": "52:55:55:00:00:01"}


def test_params_are_passed_unchanged(tmp_path: Path) -> None:
    value = """it's "odd" $HOME `id` \\"""
    text = (
        f"param:\n  ODD: {json.dumps(value)}\nprobes:\n- script: '#!/bin/sh {{{{.Param.ODD}}}}'\n"
    )
    assert sh(tmp_path, "param.env", files(text)["param.env"], '"$PARAM_ODD"') == value


def test_facts_can_be_sourced(tmp_path: Path) -> None:
    found = files("user: {comment: 'Anna O''Neill'}\n")["lima.env"]
    assert sh(tmp_path, "lima.env", found, '"$LIMA_CIDATA_COMMENT"') == "Anna O'Neill"
    assert sh(tmp_path, "lima.env", found, '"$LIMA_CIDATA_SLIRP_GATEWAY"') == "192.168.5.2"


def test_scripts_are_ordered_in_the_directory_of_their_mode() -> None:
    found = files(
        """
provision:
- {mode: user, script: "#!/bin/sh\\necho user"}
- {mode: system, script: "echo no shebang"}
- {mode: boot, script: "#!/bin/sh\\necho boot"}
- {mode: dependency, script: "#!/bin/sh\\necho dependency"}
- mode: data
  path: /etc/x
  content: "{{.Name}}"
  owner: "1:2"
  permissions: "600"
  overwrite: false
"""
    )
    assert found["provision.user/00000000"] == "#!/bin/sh\necho user"
    assert found["provision.system/00000001"] == "#!/bin/sh\necho no shebang"
    assert "boot/00000002" in found
    assert "provision.dependency/00000003" in found
    assert found["provision.data/00000004"] == "vm"
    assert found["provision.data/00000004.env"].splitlines() == [
        "DATA_PATH=/etc/x",
        "DATA_OWNER=1:2",
        "DATA_PERMISSIONS=600",
        "DATA_OVERWRITE=false",
    ]


def test_host_aliases_are_resolved() -> None:
    found = files(
        "hostResolver:\n  hosts:\n    a.internal: b.internal\n    b.internal: host.lima.internal\n"
        "    c.internal: 10.1.2.3\n    lost: nowhere\n    loop: loop\n"
    )["hosts"].splitlines()
    assert found == [
        "192.168.5.2 host.lima.internal",
        "192.168.5.15 lima-vm",
        "192.168.5.2 a.internal",
        "192.168.5.2 b.internal",
        "10.1.2.3 c.internal",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("http://localhost:3128", "http://192.168.5.2:3128", id="name"),
        pytest.param("http://u:p@127.0.0.1:1/", "http://u:p@192.168.5.2:1/", id="user"),
        pytest.param("http://proxy.corp:8080", "http://proxy.corp:8080", id="elsewhere"),
    ],
)
def test_loopback_proxy_is_rewritten_to_the_gateway(value: str, expected: str) -> None:
    guest = Guest(name="vm", instance_id="i", keys=[], mac="", environment={"http_proxy": value})
    assert f"http_proxy={expected}\n" in files("{}", guest)["etc_environment"]
    assert files("propagateProxyEnv: false\n", guest)["etc_environment"] == ""


def test_name_servers_of_the_template_replace_the_default() -> None:
    found = files("hostResolver: {enabled: false}\ndns: [9.9.9.9]\n")
    assert "LIMA_CIDATA_DNS=9.9.9.9\n" in found["lima.env"]
    ethernet = json.loads(found["network-config"])["ethernets"]["eth0"]
    assert ethernet["nameservers"] == {"addresses": ["9.9.9.9"]}


def test_authorities_are_joined(tmp_path: Path) -> None:
    (tmp_path / "one.pem").write_text("-----BEGIN CERTIFICATE-----\none")
    found = files(f"caCerts:\n  files: [{tmp_path}/one.pem]\n  certs: ['-----BEGIN two']\n")
    assert found["ca-certs.pem"] == "-----BEGIN CERTIFICATE-----\none\n-----BEGIN two\n"


def test_shares_are_listed_for_the_boot_script() -> None:
    guest = Guest(
        name="vm",
        instance_id="i",
        keys=[],
        mac="",
        shares=[Share("virtiofs", "mount0", "/a b", "ro")],
    )
    assert files("{}", guest)["mounts"] == "virtiofs\tmount0\tro\t/a b\n"


def test_boot_script_is_valid_for_every_shell(real_part: Callable[[str], Path]) -> None:
    path = Path(cidata.__file__).with_name("boot.sh")
    for shell in ("sh", "bash"):
        done = run_program([real_part(shell), "-n", path])
        assert done.returncode == 0, done.stderr


def run_boot_script(world: Path, text: str, *arguments: str) -> str:
    """Run boot.sh with all its directories below `world`; return its output."""
    disk = world / "mnt" / "lima-cidata"
    for path, content in cidata.files(template(text), GUEST).items():
        (disk / path).parent.mkdir(parents=True, exist_ok=True)
        (disk / path).write_bytes(content)
        (disk / path).chmod(0o755)
    for folder in ("etc", "run", "var/log", "bin"):
        (world / folder).mkdir(parents=True, exist_ok=True)
    (world / "etc" / "group").touch()
    programs = {"su": 'shift 3; exec sh -c "$1"', "loginctl": "exit 0"}
    for name, line in programs.items():
        (world / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (world / "bin" / name).chmod(0o755)
    script = disk / "boot.sh"
    moved = re.sub(r"(?<![\w$\"}])/(mnt|etc|run|var)/", rf"{world}/\1/", script.read_text())
    script.write_text(moved)
    done = run_program(["sh", script, *arguments], env={"PATH": f"{world}/bin:/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


BOOTING = """
env: {COLOUR: blue}
provision:
- {mode: user, script: "#!/bin/sh\\necho from $0 in $XDG_RUNTIME_DIR"}
"""


def test_environment_is_set_up_first(tmp_path: Path) -> None:
    assert run_boot_script(tmp_path, BOOTING, "environment") == ""
    wanted = "# rdd begin\nCOLOUR=blue\n# rdd end\n"
    assert (tmp_path / "etc" / "environment").read_text() == wanted
    assert not (tmp_path / "etc" / "hosts").exists()
    assert not list((tmp_path / "run").iterdir())
    run_boot_script(tmp_path, BOOTING)
    assert (tmp_path / "etc" / "environment").read_text() == wanted
    assert (tmp_path / "run" / "lima-boot-done").read_text() == cidata.meta_data(GUEST)


def test_user_script_is_not_run_from_a_noexec_directory(tmp_path: Path) -> None:
    output = run_boot_script(tmp_path, BOOTING)
    # Debian's /run is mounted noexec; the uid is that of the guest.
    runtime = tmp_path / "run" / "user" / str(os.getuid())
    assert f"from {tmp_path}/var/lib/lima-provision-user in {runtime}\n" in output
    assert not list((tmp_path / "var" / "lib").iterdir())


# -- the image


def read_image(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of all files, parsed like a kernel with Rock Ridge."""
    found: dict[str, tuple[int, bytes]] = {}
    descriptor = data[16 * 2048 : 17 * 2048]
    assert descriptor[:6] == b"\x01CD001"

    def walk(sector: int, size: int, path: str) -> None:
        offset, end = sector * 2048, sector * 2048 + size
        while offset < end:
            length = data[offset]
            if length == 0:
                offset = (offset // 2048 + 1) * 2048
                continue
            record = data[offset : offset + length]
            offset += length
            extent, extent_size = (int.from_bytes(record[at : at + 4], "little") for at in (2, 10))
            name_length = record[32]
            fields = record[33 + name_length + (name_length + 1) % 2 :]
            name, mode = "", 0
            while len(fields) >= 4 and fields[2]:
                field, fields = fields[: fields[2]], fields[fields[2] :]
                if field[:2] == b"NM":
                    name = field[5:].decode()
                elif field[:2] == b"PX":
                    mode = int.from_bytes(field[4:8], "little")
            if not name:
                continue  # . and ..
            if record[25] & 2:
                walk(extent, extent_size, f"{path}{name}/")
            else:
                start = extent * 2048
                found[path + name] = (mode, data[start : start + extent_size])

    root = descriptor[156:190]
    walk(int.from_bytes(root[2:6], "little"), int.from_bytes(root[10:14], "little"), "")
    return found


NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True).filter(
    lambda n: n not in (".", "..")
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(NAMES, st.dictionaries(NAMES, st.binary(max_size=5000), max_size=8), max_size=6)
)
def test_files_survive_a_round_trip(tree: dict[str, dict[str, bytes]]) -> None:
    given_files = {
        f"{folder}/{name}": data for folder, inner in tree.items() for name, data in inner.items()
    }
    found = read_image(iso9660.image(given_files, label="cidata"))
    assert {name: data for name, (_, data) in found.items()} == given_files


def test_directory_with_many_files_is_complete() -> None:
    wanted = {f"many/a-rather-long-name-{number}": b"%d" % number for number in range(500)}
    assert len(read_image(iso9660.image(wanted, label="cidata"))) == 500


def test_scripts_are_executable() -> None:
    found = read_image(iso9660.image({"a": b"#!/bin/sh\n", "b": b"text"}, label="cidata"))
    assert (found["a"][0], found["b"][0]) == (0o100755, 0o100644)


def test_volume_has_its_label(tmp_path: Path, real_part: Callable[[str], Path]) -> None:
    path = tmp_path / "disk.iso"
    path.write_bytes(iso9660.image({"meta-data": b"x"}, label="cidata"))
    done = run_program([real_part("blkid"), "-p", path])
    assert re.search(r'LABEL="cidata".*TYPE="iso9660"', done.stdout), done.stderr


@pytest.mark.parametrize("name", ["", "x" * 121, "a//b", ".."])
def test_rejects_invalid_file_names(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid file name"):
        iso9660.image({name: b""}, label="cidata")


def test_rejects_a_label_that_is_too_long() -> None:
    with pytest.raises(ValueError, match="longer than 32"):
        iso9660.image({}, label="x" * 33)


ODD = ["a b", 'say "hi"', "it's", "$(touch /tmp/x)", "`id`", "a\\b", "#x", " lead", "trail ", "é"]


@pytest.mark.parametrize("value", ODD)
def test_value_stays_on_its_line_of_the_environment(value: str) -> None:
    text = files("env:\n  A: " + json.dumps(value) + "\n  B: plain\n")["etc_environment"]
    lines = text.splitlines()
    assert [line.partition("=")[0] for line in lines] == ["A", "B"]
    read = run_program(["sh", "-c", f'{lines[0]}\nprintf %s "$A"'], check=True).stdout
    assert read == value


BROKEN = ["a\nB=evil", "a\rb", "a\0b", "a\x1bb", "a\u2028b", 'it\'s "$(id)"']


@pytest.mark.parametrize("value", BROKEN)
def test_proxy_of_the_host_that_fits_no_line_is_left_out(value: str) -> None:
    guest = Guest(name="vm", instance_id="i", keys=[], mac="", environment={"http_proxy": value})
    assert files("{}", guest)["etc_environment"] == ""
