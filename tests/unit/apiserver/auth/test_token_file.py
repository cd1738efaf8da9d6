# SPDX-License-Identifier: Apache-2.0
"""The static token file."""

from pathlib import Path

import pytest

from rdd.apiserver.auth.token_file import TokenFileError, read_token_file
from rdd.apiserver.http.request import User


def read(tmp_path: Path, text: str) -> dict[str, User]:
    path = tmp_path / "tokens.csv"
    path.write_text(text)
    return read_token_file(path)


def test_reads_users_with_uid_and_groups(tmp_path: Path) -> None:
    users = read(tmp_path, 't1,alice,1\n\nt2,"b, c",2,"dev,ops"\nt3,d,3,\n')
    assert (users["t1"].name, users["t1"].uid, users["t1"].groups) == ("alice", "1", ())
    assert (users["t2"].name, users["t2"].groups) == ("b, c", ("dev", "ops"))
    assert users["t3"].groups == ()


def test_skips_an_empty_token_and_takes_the_last_of_equal_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    users = read(tmp_path, ",alice,1\nt,bob,2\nt,carol,3\n")
    assert [u.name for u in users.values()] == ["carol"]
    assert "empty token" in caplog.text
    assert "duplicate token" in caplog.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("secret-token,alice\n", "must have at least 3 columns (token, user name, user uid)"),
        ('secret-token,"alice,1\n', "is not CSV"),
    ],
)
def test_rejects_incomplete_records_without_showing_tokens(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(TokenFileError) as error:
        read(tmp_path, text)
    assert why in str(error.value)
    assert "secret-token" not in str(error.value)


def test_rejects_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="No such file"):
        read_token_file(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError, match="not UTF-8"):
        read_token_file(tmp_path / "binary")
