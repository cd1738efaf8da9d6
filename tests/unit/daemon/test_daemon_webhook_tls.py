# SPDX-License-Identifier: Apache-2.0
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rdd.daemon.managers import webhook_tls


def can_be_trusted(tls: webhook_tls.WebhookTls, name: str) -> bool:
    """Return whether a client that trusts the authority accepts the certificate for a name."""
    trusting = ssl.create_default_context(cadata=tls.ca_bundle)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=name)
    server = tls.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return client.version() is not None


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "127.0.0.1",
        "webhook-service.default.svc",
        "notary-webhook.default.svc.cluster.local",
    ],
)
def test_certificate_is_valid_for_every_name_of_the_service(tmp_path: Path, name: str) -> None:
    tls = webhook_tls.ensure(tmp_path, "rdd", ["notary"])
    assert can_be_trusted(tls, name)
    assert not can_be_trusted(tls, "example.com")


def test_programs_share_an_authority_and_keep_their_pair(tmp_path: Path) -> None:
    first = webhook_tls.ensure(tmp_path, "rdd", ["notary"])
    again = webhook_tls.ensure(tmp_path, "rdd", ["notary"])
    other = webhook_tls.ensure(tmp_path, "app", ["app"])
    assert first.issued.pair == again.issued.pair
    assert first.ca_bundle == other.ca_bundle
    assert other.issued.pair != first.issued.pair
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("webhook-*")}
    assert modes["webhook-ca.key"] == modes["webhook-rdd.key"] == 0o600
    assert modes["webhook-ca.crt"] == modes["webhook-rdd.crt"] == 0o644


def test_new_webhook_gets_a_certificate_with_its_name(tmp_path: Path) -> None:
    webhook_tls.ensure(tmp_path, "app", ["app"])
    tls = webhook_tls.ensure(tmp_path, "app", ["app", "k3s-versions"])
    assert can_be_trusted(tls, "k3s-versions-webhook")


def test_certificate_of_a_removed_authority_is_replaced(tmp_path: Path) -> None:
    before = webhook_tls.ensure(tmp_path, "rdd", ["notary"])
    for path in tmp_path.glob("webhook-ca.*"):
        path.unlink()
    after = webhook_tls.ensure(tmp_path, "rdd", ["notary"])
    assert after.ca_bundle != before.ca_bundle
    assert can_be_trusted(after, "localhost")


def test_concurrent_programs_create_one_authority(tmp_path: Path) -> None:
    groups = ("rdd", "app", "lima", "containers")
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda group: webhook_tls.ensure(tmp_path, group, []), groups))
    assert len({tls.ca_bundle for tls in made}) == 1
    assert all(can_be_trusted(tls, "localhost") for tls in made)
