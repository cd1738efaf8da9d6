# SPDX-License-Identifier: Apache-2.0
"""Authentication with client certificates, over real TLS."""

import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rdd.apiserver.auth import certificates
from rdd.daemon.options import ServeOptions
from rdd.daemon.stages import control_plane
from rdd.host.errors import HostError
from rdd.instance import Instance

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def client_context(directory: Path, server_ca: Path, pair: certificates.KeyPair) -> ssl.SSLContext:
    certificate, key = directory / "client.crt", directory / "client.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    context = ssl.create_default_context(cafile=str(server_ca))
    context.load_cert_chain(certificate, key)
    return context


async def who_am_i(address: str, context: ssl.SSLContext) -> tuple[int, Any]:
    url = f"https://{address}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=REVIEW, ssl=context) as answer,
    ):
        return answer.status, await answer.json()


async def test_client_certificate_identifies_user_and_groups(tmp_path: Path) -> None:
    authority = certificates.create_authority("people")
    ca_file = tmp_path / "people.crt"
    ca_file.write_bytes(authority.certificate)
    instance = Instance("2", tmp_path / "home")
    options = ServeOptions(secure_port=0, client_ca_file=str(ca_file))
    async with control_plane(instance, options) as running:
        pair = certificates.issue_client(authority, "jane", groups=["staff"])
        context = client_context(tmp_path, instance.tls_dir / "apiserver.crt", pair)
        status, review = await who_am_i(running.address, context)
    assert status == 201
    user = review["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("jane", ["staff", "system:authenticated"])


async def test_certificate_of_a_foreign_authority_is_rejected(tmp_path: Path) -> None:
    ca_file = tmp_path / "people.crt"
    ca_file.write_bytes(certificates.create_authority("people").certificate)
    instance = Instance("2", tmp_path / "home")
    options = ServeOptions(secure_port=0, client_ca_file=str(ca_file))
    async with control_plane(instance, options) as running:
        pair = certificates.issue_client(certificates.create_authority("others"), "jane")
        context = client_context(tmp_path, instance.tls_dir / "apiserver.crt", pair)
        with pytest.raises((aiohttp.ClientError, OSError)):
            await who_am_i(running.address, context)


@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "garbage"])
async def test_unreadable_authorities_are_an_error_that_names_the_file(
    tmp_path: Path, content: str | None
) -> None:
    ca_file = tmp_path / "people.crt"
    if content is not None:
        ca_file.write_text(content)
    options = ServeOptions(secure_port=0, client_ca_file=str(ca_file))
    with pytest.raises(HostError, match=r"people\.crt.*--client-ca-file"):
        async with control_plane(Instance("2", tmp_path / "home"), options):
            pass
