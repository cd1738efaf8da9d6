# SPDX-License-Identifier: Apache-2.0
"""Process-level behaviour: --instance, global flags, log lines, exit codes, environment."""

import io
import json
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rdd.cli.framework.entry import run, take_instance
from rdd.cli.framework.environment import Environment
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.log_handler import LogHandler
from rdd.cli.framework.logline import Level, Log, klog_verbosity, rfc3339

Rdd = Callable[..., Any]

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def environment(**variables: str) -> Environment:
    return Environment(variables, "linux")


# --instance


@pytest.mark.parametrize(
    ("words", "suffix", "rest"),
    [
        pytest.param(["--instance", "x", "version"], "x", ["version"], id="next word"),
        pytest.param(["--instance=x", "version"], "x", ["version"], id="after ="),
        pytest.param(["--instance=", "version"], "", ["version"], id="empty is dropped"),
        pytest.param(["--instance"], "", [], id="alone is dropped"),
        pytest.param(["--instance", "--help"], "", ["--help"], id="before a flag is dropped"),
        pytest.param(["--instance", "-h"], "", ["-h"], id="before a short flag is dropped"),
        pytest.param(["version"], "", ["version"], id="absent"),
        pytest.param([], "", [], id="no words"),
        pytest.param(["svc", "--instance=x"], "", ["svc", "--instance=x"], id="not the first"),
        pytest.param(["--instances", "x"], "", ["--instances", "x"], id="longer name"),
    ],
)
def test_leading_instance_flag_is_split_off(words: list[str], suffix: str, rest: list[str]) -> None:
    assert take_instance(words) == (suffix, rest)


@pytest.mark.parametrize(
    ("words", "variables", "suffix"),
    [
        pytest.param([], {}, "2", id="default"),
        pytest.param([], {"RDD_INSTANCE": "env"}, "env", id="variable"),
        pytest.param([], {"RDD_INSTANCE": ""}, "2", id="empty variable"),
        pytest.param(["--instance=flag"], {"RDD_INSTANCE": "env"}, "flag", id="flag wins"),
        pytest.param(["--instance="], {"RDD_INSTANCE": "env"}, "env", id="empty flag"),
    ],
)
def test_instance_comes_from_flag_then_variable_then_default(
    rdd: Rdd, home: Path, words: list[str], variables: dict[str, str], suffix: str
) -> None:
    outcome = rdd(*words, "svc", "paths", "short_dir", **variables)
    assert outcome.out == f"{home}/.rd{suffix}\n"


def test_instance_flag_is_exported_to_child_processes(rdd: Rdd) -> None:
    assert rdd("--instance", "x", "version").environ["RDD_INSTANCE"] == "x"


@pytest.mark.parametrize(
    "words",
    [
        ["svc", "--instance", "x", "paths"],
        ["svc", "paths", "--instance", "x"],
        ["svc", "paths", "--instance=x"],
        ["--log-level=info", "--instance=x", "version"],
        ["version", "--instance"],
    ],
)
def test_instance_flag_elsewhere_is_unknown(rdd: Rdd, words: list[str]) -> None:
    outcome = rdd(*words)
    assert outcome.code == 1
    assert "unknown flag: --instance" in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("suffix", ["A", "../x", "a b", "-", "x" * 33])
def test_rejects_invalid_instance_name_with_source_and_rule(rdd: Rdd, suffix: str) -> None:
    rule = "allowed are lower-case letters, digits and inner hyphens, at most 32 characters"
    by_flag = rdd(f"--instance={suffix}", "version")
    assert (by_flag.code, by_flag.out) == (1, "")
    assert f'invalid instance name \\"{suffix}\\" in --instance: {rule}' in by_flag.err
    by_variable = rdd("svc", "paths", RDD_INSTANCE=suffix)
    assert (by_variable.code, by_variable.out) == (1, "")
    assert f'invalid instance name \\"{suffix}\\" in RDD_INSTANCE: {rule}' in by_variable.err


def test_command_ignores_variables_it_does_not_use(rdd: Rdd) -> None:
    assert rdd("version", RDD_INSTANCE="NOT OK", HOME="").code == 0


# log level and format


@pytest.mark.parametrize(
    ("flag", "variable", "developer", "expected"),
    [
        ("fatal", "", "0", "fatal"),
        ("error", "", "0", "error"),
        ("warn", "", "0", "warning"),
        ("warning", "", "0", "warning"),
        ("info", "", "0", "info"),
        ("debug", "", "0", "debug"),
        ("trace", "", "0", "trace"),
        ("INFO", "", "0", "info"),
        ("info", "trace", "1", "info"),
        ("", "trace", "0", "trace"),
        ("", "  info\n", "0", "info"),
        ("", "", "1", "debug"),
        ("", "  ", "1", "debug"),
        ("", "", "0", "warning"),
    ],
)
def test_log_level_comes_from_flag_then_variable_then_mode(
    flag: str, variable: str, developer: str, expected: str
) -> None:
    found = environment(RDD_LOG_LEVEL=variable, RDD_DEVELOPER_MODE=developer).log_level(flag)
    assert found == expected


@pytest.mark.parametrize(
    ("words", "variables"),
    [(["--log-level=loud"], {}), ([], {"RDD_LOG_LEVEL": "loud"}), (["--log-level", "loud"], {})],
)
def test_rejects_unknown_log_level(rdd: Rdd, words: list[str], variables: dict[str, str]) -> None:
    outcome = rdd(*words, "version", **variables)
    assert (outcome.code, outcome.out) == (1, "")
    assert r"not a valid logrus Level: \"loud\"" in outcome.err


def test_rejects_unknown_log_format(rdd: Rdd) -> None:
    outcome = rdd("version", "--log-format=xml")
    assert (outcome.code, outcome.out) == (1, "")
    assert r'level=fatal msg="invalid log format: \"xml\"' in outcome.err


@pytest.mark.parametrize(
    ("level", "verbosity"),
    [("fatal", 0), ("error", 0), ("warning", 0), ("info", 0), ("debug", 2), ("trace", 4)],
)
def test_log_level_sets_the_verbosity_of_the_daemon(level: Level, verbosity: int) -> None:
    assert klog_verbosity(level) == verbosity


@pytest.mark.parametrize("position", [0, 1, 2])
def test_global_flags_are_accepted_before_and_after_the_command(rdd: Rdd, position: int) -> None:
    words = ["svc", "paths"]
    words.insert(position, "--log-format=json")
    assert rdd(*words).code == 0


# log lines


def emit(level: Level, threshold: Level, form: str = "text") -> str:
    stream = io.StringIO()
    log = Log(stream, level=threshold, format=form)  # type: ignore[arg-type]
    log.write(level, 'said "x"')
    return stream.getvalue()


@pytest.mark.parametrize("level", ["fatal", "error", "warning", "info", "debug", "trace"])
def test_text_line(level: Level) -> None:
    expected = rf'time="{TIME}" level={level} msg="said \\"x\\""\n'
    assert re.fullmatch(expected, emit(level, "trace"))


def test_json_line() -> None:
    line = emit("info", "info", "json")
    assert line.count("\n") == 1
    record = json.loads(line)
    assert record.keys() == {"level", "msg", "time"}
    assert (record["level"], record["msg"]) == ("info", 'said "x"')
    assert re.fullmatch(TIME, record["time"])


def test_line_below_the_level_is_not_written() -> None:
    assert emit("debug", "info") == ""
    assert emit("info", "info") != ""


def test_log_that_cannot_be_written_fails_no_caller() -> None:
    with open("/dev/full", "w") as full:
        log = Log(full, level="trace")
        handler = LogHandler(log)
        handler.handle(logging.LogRecord("rdd", logging.ERROR, "", 0, "no", None, None))
        log.failure("no", exit_code=1)
        with suppress(OSError):
            full.close()
    handler.handle(logging.LogRecord("rdd", logging.ERROR, "", 0, "closed", None, None))


@pytest.mark.parametrize(
    ("code", "level", "fields"),
    [
        pytest.param(1, "fatal", {}, id="any other error"),
        pytest.param(3, "error", {"exit-code": 3}, id="rejected by the API server"),
        pytest.param(4, "error", {"exit-code": 4}, id="deadline"),
        pytest.param(5, "error", {"exit-code": 5}, id="version mismatch"),
        pytest.param(7, "fatal", {"exit-code": 7}, id="code of a child"),
    ],
)
def test_last_line_of_a_failure(code: int, level: str, fields: dict[str, int]) -> None:
    text, lines = io.StringIO(), io.StringIO()
    Log(text, level="fatal").failure("no", exit_code=code)
    Log(lines, level="fatal", format="json").failure("no", exit_code=code)
    extra = "".join(f" {key}={value}" for key, value in fields.items())
    assert re.fullmatch(rf'time="{TIME}" level={level} msg="no"{extra}\n', text.getvalue())
    record = json.loads(lines.getvalue())
    assert record.pop("time")
    assert record == {"level": level, "msg": "no", **fields}


def test_usage_errors_are_json_with_log_format_json(rdd: Rdd) -> None:
    for words in (["--log-format=json", "nope"], ["svc", "paths", "--log-format", "json", "-x"]):
        record = json.loads(rdd(*words).err)
        assert record["level"] == "fatal"


def test_terminal_output_is_coloured_unless_no_color_is_set(home: Path) -> None:
    for variables, expected in (({}, "\x1b[31mFATA\x1b[0m unknown"), ({"NO_COLOR": "1"}, "time=")):
        err = Terminal()
        environ = {"HOME": str(home), **variables}
        assert run(["rdd", "nope"], environ, stdout=io.StringIO(), stderr=err) == 1
        assert err.getvalue().startswith(expected)


def test_time_has_the_offset_of_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    for zone, expected in (
        ("UTC0", "1970-01-01T00:00:00Z"),
        ("XXX-5:30", "1970-01-01T05:30:00+05:30"),
    ):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert rfc3339(0) == expected
    monkeypatch.delenv("TZ")
    time.tzset()


# version


@pytest.mark.parametrize(
    "words", [["version"], ["--version"], ["--version=true"], ["--log-level=info", "--version"]]
)
def test_version_is_printed_on_stdout(rdd: Rdd, words: list[str]) -> None:
    outcome = rdd(*words)
    assert (outcome.code, outcome.err) == (0, "")
    assert re.fullmatch(r"v\d+\.\d+\.\d+\S*\n", outcome.out)


def test_raw_version_has_the_lines_that_scripts_read(rdd: Rdd) -> None:
    lines = rdd("--version=raw").out.splitlines()
    keys = [line.split(": ")[0] for line in lines]
    assert keys == ["Version", "GitCommit", "BuildDate", "GoVersion", "Compiler", "Platform"]
    assert re.fullmatch(r"Platform: [a-z0-9]+/[a-z0-9_]+", lines[-1])


@pytest.mark.parametrize("value", ["v9.9.9", "false", "x y"])
def test_unknown_version_format_is_echoed(rdd: Rdd, value: str) -> None:
    assert rdd(f"--version={value}").out == f"{value}\n"


def test_version_is_a_flag_of_the_root_only(rdd: Rdd) -> None:
    outcome = rdd("svc", "--version")
    assert outcome.code == 1
    assert "unknown flag: --version" in outcome.err


# bad calls


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nope"],
            r"unknown command \"nope\" for \"rdd\"; valid commands: cache, completion, ctl, ",
        ),
        (["svc", "nope"], r"unknown command \"nope\" for \"rdd service\"; valid commands: "),
        (["--nope"], r"unknown flag: --nope for \"rdd\"; valid flags: --help, "),
        (["version", "--nope"], r"unknown flag: --nope for \"rdd version\""),
        (["version", "x"], "rdd version accepts 0 arg(s), received 1; usage: rdd version"),
        (["svc", "paths", "a", "b"], "rdd service paths accepts at most 1 arg(s), received 2"),
        (
            ["completion"],
            "rdd completion accepts 1 arg(s), received 0; usage: rdd completion SHELL",
        ),
        (["completion", "tcsh"], r"unknown shell \"tcsh\"; valid shells: bash, fish, zsh"),
        (["help", "nope"], r"unknown command \"nope\" for \"rdd\""),
        (["help", "version", "x"], r"\"rdd version\" has no command \"x\""),
    ],
)
def test_invalid_call_prints_one_line_and_exits_with_1(
    rdd: Rdd, words: list[str], message: str
) -> None:
    outcome = rdd(*words)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert " level=fatal msg=" in outcome.err
    assert message in outcome.err


# environment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, True) for text in ("1", "t", "T", "TRUE", "true", "True")],
        *[(text, False) for text in ("0", "f", "F", "FALSE", "false", "False")],
        ("yes", False),
        ("", False),
    ],
)
def test_developer_mode_variable(text: str, expected: bool) -> None:
    assert environment(RDD_DEVELOPER_MODE=text).developer_mode is expected


def test_developer_mode_is_off_by_default() -> None:
    assert environment().developer_mode is False


@pytest.mark.parametrize(("value", "expected"), [("", False), ("0", True), ("yes", True)])
def test_keep_logs_is_on_for_any_text(value: str, expected: bool) -> None:
    assert environment(RDD_KEEP_LOGS=value).keep_logs is expected


def test_log_title_becomes_the_first_line() -> None:
    assert environment(RDD_LOG_TITLE="T").log_title == "=== T ==="
    assert environment().log_title == ""


def test_log_dir_variable_replaces_the_log_directory(rdd: Rdd) -> None:
    outcome = rdd("svc", "paths", "log_dir", RDD_LOG_DIR="/var/log/mine")
    assert outcome.out == "/var/log/mine\n"


def test_xdg_variables_are_not_consulted(rdd: Rdd, home: Path) -> None:
    outcome = rdd("svc", "paths", "dir", XDG_DATA_HOME="/x", XDG_STATE_HOME="/x")
    assert outcome.out == f"{home}/.local/share/rancher-desktop-2\n"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"HOME": ""}, "HOME is not set"),
        ({"HOME": "me"}, r"HOME \"me\" is not an absolute path"),
        ({"HOME": "/a\nb"}, r"HOME \"/a\\nb\" contains unprintable characters"),
        (
            {"HOME": "/dev/null"},
            r"cannot read home directory \"/dev/null\" (HOME): Not a directory",
        ),
        ({"RDD_LOG_DIR": "logs"}, r"RDD_LOG_DIR \"logs\" is not an absolute path"),
    ],
)
def test_rejects_unusable_directory_by_variable_name(
    rdd: Rdd, variables: dict[str, str], message: str
) -> None:
    outcome = rdd("svc", "paths", **variables)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err


def test_rejects_unreadable_home(rdd: Rdd, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    outcome = rdd("svc", "paths")
    assert outcome.code == 1
    assert rf"cannot read home directory \"{home}\" (HOME): Permission denied" in outcome.err


def test_paths_do_not_need_an_existing_home(rdd: Rdd) -> None:
    assert rdd("svc", "paths", "short_dir", HOME="/does/not/exist").out == "/does/not/exist/.rd2\n"


def test_home_on_windows_is_the_user_profile() -> None:
    with pytest.raises(CommandError, match="USERPROFILE is not set"):
        Environment({"HOME": "/home/me"}, "windows", "/").instance()


def test_calls_touch_nothing_on_disk(rdd: Rdd, home: Path) -> None:
    for words in (
        ["svc", "paths"],
        ["svc", "paths", "nope"],
        ["--instance=../x", "svc", "paths"],
        ["version"],
        ["help"],
        ["nope"],
    ):
        rdd(*words)
    assert list(home.iterdir()) == []
