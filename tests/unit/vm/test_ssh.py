# SPDX-License-Identifier: Apache-2.0
"""ssh: Lima's options, one key for all machines."""

import asyncio
from pathlib import Path

from tests.programs import run_program

from rdd.vm import ssh

TARGET = ssh.SshTarget(
    port=60022,
    user="lima",
    identity=Path("/lima home/_config/user"),
    control=Path("/lima home/vm/ssh.sock"),
)


def test_options_are_those_of_lima() -> None:
    words = TARGET.command("true")
    assert words[:3] == ["ssh", "-F", "/dev/null"]
    assert words[-4:] == ["-T", "127.0.0.1", "--", "true"]
    options = dict(word.split("=", 1) for word in words if "=" in word)
    assert options["IdentityFile"] == '"/lima home/_config/user"'
    assert options["ControlPath"] == '"/lima home/vm/ssh.sock"'
    for name, value in {
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
        "NoHostAuthenticationForLocalhost": "yes",
        "PreferredAuthentications": "publickey",
        "Compression": "no",
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "GSSAPIAuthentication": "no",
        "User": "lima",
        "ControlMaster": "auto",
        "ControlPersist": "yes",
    }.items():
        assert options[name] == value
    assert options["Ciphers"].startswith('"^aes128-gcm')


def test_ssh_accepts_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "ssh.config").write_text(TARGET.config("vm"))
    done = run_program(["ssh", "-G", "-F", str(tmp_path / "ssh.config"), "lima-vm"])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "port 60022" in lines
    assert "user lima" in lines
    assert "controlpath /lima home/vm/ssh.sock" in lines
    assert any(line.startswith("ciphers aes128-gcm") for line in lines)


async def test_concurrent_callers_create_one_key(tmp_path: Path) -> None:
    keys = await asyncio.gather(*(ssh.ensure_key(tmp_path) for _ in range(4)))
    assert set(keys) == {tmp_path / "_config" / "user"}
    assert keys[0].stat().st_mode & 0o777 == 0o600
    public = (tmp_path / "_config" / "user.pub").read_text()
    assert public.startswith("ssh-ed25519 ")
    assert public.rstrip().endswith(" lima")
    before = keys[0].read_bytes()
    assert (await ssh.ensure_key(tmp_path)).read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "_config").glob("*.tmp*")) == []


async def test_lost_public_key_is_derived(tmp_path: Path) -> None:
    key = await ssh.ensure_key(tmp_path)
    public = tmp_path / "_config" / "user.pub"
    before = public.read_text().split()[1]
    public.unlink()
    await ssh.ensure_key(tmp_path)
    assert public.read_text().split()[1] == before
    assert key.exists()


def test_keys_of_the_user_are_added_when_wanted(tmp_path: Path) -> None:
    for folder, name in (("lima/_config", "user.pub"), (".ssh", "id.pub"), (".ssh", "odd.pub")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(f"key {name}\n")
    (tmp_path / ".ssh" / "odd.pub").write_text("two\nlines\n")
    home, lima = tmp_path, tmp_path / "lima"
    assert ssh.public_keys(home, lima, load_user_keys=False) == ["key user.pub"]
    assert ssh.public_keys(home, lima, load_user_keys=True) == ["key user.pub", "key id.pub"]


async def test_silent_server_has_no_banner() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert not await ssh.has_banner(port, timeout_s=0.05)
    server.close()
    await server.wait_closed()
    assert not await ssh.has_banner(port, timeout_s=0.05)
