# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from rdd.apiserver.auth import certificates
from rdd.daemon.key_issuer import KeyIssuer


def test_keys_of_the_child_are_used(tmp_path: Path) -> None:
    issuer = KeyIssuer.start_if_needed(tmp_path)
    assert issuer is not None
    found = issuer.result()
    assert found is not None
    pair, signing_key = found
    issued = certificates.ensure_serving(tmp_path, prepared=pair)
    assert issued.pair == pair
    assert certificates.ensure_signing_key(tmp_path, prepared=signing_key) == signing_key
    assert certificates.ensure_serving(tmp_path).pair == pair  # valid by the rules of a start
    assert certificates.ensure_signing_key(tmp_path) == signing_key
    assert (tmp_path / "apiserver.key").stat().st_mode & 0o777 == 0o600


def test_existing_keys_need_no_child(tmp_path: Path) -> None:
    certificates.ensure_serving(tmp_path)
    assert KeyIssuer.start_if_needed(tmp_path) is None


@pytest.mark.parametrize("program", ["/bin/false", "/bin/echo", "/bin/true"])
def test_failed_child_gives_no_keys(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    issuer = KeyIssuer.start_if_needed(tmp_path)
    assert issuer is not None
    assert issuer.result() is None
    issuer.close()


@pytest.mark.parametrize("program", ["", "/nonexistent/python"])
def test_child_that_cannot_start_is_none(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert KeyIssuer.start_if_needed(tmp_path) is None


def test_prepared_pair_for_other_names_is_not_used(tmp_path: Path) -> None:
    pair = certificates.create_serving(names=["localhost"])
    issued = certificates.ensure_serving(tmp_path, prepared=pair)
    assert issued.pair != pair


def test_child_is_ended_when_the_start_fails(tmp_path: Path) -> None:
    issuer = KeyIssuer.start_if_needed(tmp_path)
    assert issuer is not None
    issuer.close()
    issuer.close()
    assert issuer.result() is None
    assert not list(tmp_path.iterdir())
