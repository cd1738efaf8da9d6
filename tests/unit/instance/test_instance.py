# SPDX-License-Identifier: Apache-2.0
"""Names, index, paths and ports of an instance."""

import dataclasses
import os
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.instance import (
    PATH_KEYS,
    SOCKET_PATH_LIMIT_BYTES,
    Instance,
    InvalidInstanceName,
    Ports,
    System,
    directories,
    index,
)

HOME = Path("/home/me")

suffixes = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        pytest.param("2", 2, id="the default"),
        pytest.param("1", 1, id="smallest number"),
        pytest.param("99", 99, id="largest number"),
        pytest.param("07", 7, id="leading zero"),
        pytest.param("0", 148, id="zero is hashed"),
        pytest.param("00", 196, id="zeros are hashed"),
        pytest.param("100", 145, id="three digits are hashed"),
        pytest.param("bats", 126, id="a word is hashed"),
        pytest.param("-5", 198, id="negative number is hashed"),
        pytest.param("٧", 100 + 0x667 % 100, id="digit of another script is hashed"),
        pytest.param("", 100, id="empty"),
    ],
)
def test_index_of_a_suffix(suffix: str, expected: int) -> None:
    assert index(suffix) == expected


@pytest.mark.parametrize(
    "suffix",
    ["2", "0", "07", "99", "100", "bats", "vampire", "test", "rdd-client-gen", "a", "a" * 32],
)
def test_allowed_suffix_names_the_instance(suffix: str) -> None:
    assert Instance(suffix, HOME).name == f"rancher-desktop-{suffix}"


@pytest.mark.parametrize(
    "suffix",
    [
        pytest.param("", id="empty"),
        pytest.param("A", id="upper case"),
        pytest.param("a b", id="space"),
        pytest.param("a/b", id="path separator"),
        pytest.param("a\\b", id="backslash"),
        pytest.param("..", id="parent directory"),
        pytest.param("a.b", id="dot"),
        pytest.param("a_b", id="underscore"),
        pytest.param("-a", id="leading hyphen"),
        pytest.param("a-", id="trailing hyphen"),
        pytest.param("a" * 33, id="too long"),
        pytest.param("ä", id="not ASCII"),
        pytest.param("٧", id="digit of another script"),
        pytest.param("a\n", id="trailing newline"),
        pytest.param("a\0b", id="NUL"),
    ],
)
def test_other_suffix_is_rejected_with_the_rule(suffix: str) -> None:
    with pytest.raises(InvalidInstanceName, match="lower-case letters, digits and inner hyphens"):
        Instance(suffix, HOME)


def test_relative_home_is_rejected() -> None:
    with pytest.raises(ValueError, match='"me" is not an absolute path'):
        Instance("2", Path("me"))


def test_instance_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Instance("2", HOME).suffix = "3"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        pytest.param(
            "linux",
            (
                "/home/me/.local/share/rancher-desktop-x",
                "/home/me/.local/state/rancher-desktop-x",
                "/home/me/.rdx",
            ),
            id="Linux",
        ),
        pytest.param(
            "darwin",
            (
                "/home/me/Library/Application Support/rancher-desktop-x",
                "/home/me/Library/Logs/rancher-desktop-x",
                "/home/me/.rdx",
            ),
            id="macOS",
        ),
    ],
)
def test_directories_on_unix(system: System, expected: tuple[str, str, str]) -> None:
    assert directories("x", PurePosixPath("/home/me"), system) == tuple(
        map(PurePosixPath, expected)
    )
    instance = Instance("x", HOME, system)
    assert (str(instance.dir), str(instance.log_dir), str(instance.short_dir)) == expected


def test_directories_on_windows() -> None:
    assert directories("x", PureWindowsPath(r"C:\Users\me"), "windows") == (
        PureWindowsPath(r"C:\Users\me\AppData\Local\rancher-desktop-x"),
        PureWindowsPath(r"C:\Users\me\AppData\Local\rancher-desktop-x-logs"),
        PureWindowsPath(r"C:\Users\me\.rdx"),
    )


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("args_file", "/home/me/.local/share/rancher-desktop-2/args.json"),
        ("config", "/home/me/.local/share/rancher-desktop-2/config.yaml"),
        ("k3s_config", "/home/me/.local/share/rancher-desktop-2/k3s.yaml"),
        ("pid_file", "/home/me/.local/share/rancher-desktop-2/rdd.pid"),
        ("database", "/home/me/.local/share/rancher-desktop-2/db/state.db"),
        ("tls_dir", "/home/me/.local/share/rancher-desktop-2/tls"),
        ("bin_dir", "/home/me/.rd2/bin"),
        ("lima_home", "/home/me/.rd2/lima"),
        ("docker_socket", "/home/me/.rd2/docker.sock"),
        ("kube_config", "/home/me/.rd2/kube.config"),
    ],
)
def test_file_of_an_instance(attribute: str, expected: str) -> None:
    assert str(getattr(Instance("2", HOME), attribute)) == expected


def test_log_directory_can_be_overridden() -> None:
    instance = Instance("2", HOME, log_dir_override=Path("/var/log/mine"))
    assert instance.log_dir == Path("/var/log/mine")
    assert instance.dir == Path("/home/me/.local/share/rancher-desktop-2")


@pytest.mark.parametrize(
    ("system", "endpoint"),
    [
        ("linux", "unix:///home/me/.rd2/docker.sock"),
        ("darwin", "unix:///home/me/.rd2/docker.sock"),
        ("windows", "npipe:////./pipe/docker_engine"),
    ],
)
def test_docker_endpoint(system: System, endpoint: str) -> None:
    assert Instance("2", HOME, system).docker_endpoint == endpoint


def test_docker_socket_on_windows_is_a_named_pipe() -> None:
    assert str(Instance("2", HOME, "windows").docker_socket) == r"\\.\pipe\docker_engine"


def test_paths_are_sorted_and_complete() -> None:
    paths = Instance("2", HOME).paths()
    assert tuple(paths) == PATH_KEYS == tuple(sorted(PATH_KEYS))
    assert paths["dir"] == Path("/home/me/.local/share/rancher-desktop-2")


@pytest.mark.parametrize(
    ("name", "first", "step"),
    [
        ("api", 6443, 1),
        ("metrics", 8080, 4),
        ("health", 8081, 4),
        ("embedded_metrics", 8082, 4),
        ("embedded_health", 8083, 4),
        ("webhook", 9443, 1),
        ("passthrough", 9090, 1),
        ("kubernetes", 7441, 1),
    ],
)
@pytest.mark.parametrize("suffix", ["2", "99", "bats"])
def test_default_port(name: str, first: int, step: int, suffix: str) -> None:
    instance = Instance(suffix, HOME)
    assert getattr(instance.ports, name) == first + step * instance.index


def test_ports_of_all_instances_are_disjoint() -> None:
    ports = list(chain.from_iterable(map(Ports.of, range(200))))
    assert len(ports) == len(set(ports))


@settings(max_examples=100, deadline=None)
@given(suffixes, suffixes)
def test_two_instances_in_one_process_share_no_path(one: str, other: str) -> None:
    if one == other:
        return
    first, second = Instance(one, HOME), Instance(other, HOME)
    assert not set(first.paths().values()) & set(second.paths().values())
    if first.index != second.index:
        assert not set(first.ports) & set(second.ports)


@settings(max_examples=100, deadline=None)
@given(suffixes)
def test_socket_path_fits_for_every_suffix_and_a_home_of_40_bytes(suffix: str) -> None:
    home = Path("/" + "h" * 39)
    agent = Instance(suffix, home).lima_home / "0" / "ha.sock"
    for socket in (Instance(suffix, home).docker_socket, agent):
        assert len(os.fsencode(socket)) < SOCKET_PATH_LIMIT_BYTES
