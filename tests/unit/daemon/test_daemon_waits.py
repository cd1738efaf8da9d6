# SPDX-License-Identifier: Apache-2.0
"""Waits for a daemon: deadlines, and reasons from its log."""

from pathlib import Path

import pytest

from rdd.daemon.service.errors import DeadlineExceeded, VersionMismatch
from rdd.daemon.service.machines import is_any_vm_running
from rdd.daemon.service.record import DaemonRecord
from rdd.daemon.service.waits import Deadline, check_version, end_of, last_error, wait_ended
from rdd.host.processes import Identity, own_identity
from rdd.instance import Instance


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param('level=info msg="fine"\n', "", id="nothing wrong"),
        pytest.param('level=fatal msg="no \\"way\\"\\nat all"\n', 'no "way"\nat all', id="quoted"),
        pytest.param('level=error msg="a"\nlevel=fatal msg="b"\n', "b", id="the last one"),
        pytest.param("Traceback (most recent…)\nImportError: x\n\n", "ImportError: x", id="Python"),
        pytest.param("Traceback (most recent…)\nKeyboardInterrupt\n", "", id="interrupted"),
        pytest.param("", "", id="empty"),
        pytest.param("half a li", "", id="cut off"),
    ],
)  # fmt: skip
def test_reason_is_the_last_error_of_the_log(tmp_path: Path, text: str, reason: str) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert last_error(log) == reason


def test_missing_log_has_no_reason(tmp_path: Path) -> None:
    assert last_error(tmp_path / "log") == ""


def test_end_of_a_supervised_daemon_is_not_explained_by_an_old_log(tmp_path: Path) -> None:
    instance = Instance("2", tmp_path)
    instance.log_dir.mkdir(parents=True)
    (instance.log_dir / "rdd.stderr.log").write_text('level=fatal msg="of yesterday"')
    daemon = DaemonRecord(own_identity(), version="", supervised=True)
    assert "yesterday" not in end_of(instance, daemon)


def test_deadline_ends_a_wait_and_zero_means_no_limit() -> None:
    daemon = DaemonRecord(own_identity(), version="")
    with pytest.raises(DeadlineExceeded, match="x: context deadline exceeded"):
        wait_ended(daemon, deadline=Deadline(0.02), what="x")
    assert Deadline(0).left_s == float("inf")
    gone = DaemonRecord(Identity(daemon.process.pid, "before"), version="")
    wait_ended(gone, deadline=Deadline(0.001), what="x")


def test_versions_are_compared_unless_in_developer_mode(tmp_path: Path) -> None:
    instance = Instance("2", tmp_path)
    daemon = DaemonRecord(own_identity(), version="v2")
    check_version(instance, daemon, "v2")
    check_version(instance, daemon, "")
    with pytest.raises(VersionMismatch, match="runs version v2, this is version v1"):
        check_version(instance, daemon, "v1")


def test_virtual_machine_runs_while_its_host_agent_does(tmp_path: Path) -> None:
    assert not is_any_vm_running(tmp_path / "missing")
    for name, text in (("a", "x"), ("b", ""), ("c", "4194305")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ha.pid").write_text(text)
    assert not is_any_vm_running(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "ha.pid").write_text(f"{own_identity().pid}\n")
    assert is_any_vm_running(tmp_path)
