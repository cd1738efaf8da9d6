# SPDX-License-Identifier: Apache-2.0
import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from rdd.client import kubeconfig
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **members: Any
) -> bytes:
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://host:1/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "ns"}},
            {"name": "two", "context": {"cluster": "c"}},
        ],
        "current-context": "one",
        **members,
    }
    return yaml.safe_dump(value).encode()


def test_rendered_kubeconfig_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = kubeconfig.render(
        "https://127.0.0.1:6445", authority=PEM, admin_token="t1", reader_token="t2"
    )
    kubeconfig.write(path, text)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]
    admin = ConnectionConfig("https://127.0.0.1:6445", authority=PEM, token="t1")
    assert kubeconfig.load(path) == kubeconfig.load(path, context="root") == admin
    assert kubeconfig.load(path, context="user").token == "t2"
    found = yaml.safe_load(text)
    assert [c["name"] for c in found["contexts"]] == ["root", "user"]
    assert [u["name"] for u in found["users"]] == ["system-admin", "user"]
    assert found["current-context"] == "root"


def test_client_certificate_and_authority_as_data_or_files(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    (tmp_path / "cert.pem").write_text("cert")
    (tmp_path / "token").write_text("secret\n")
    as_data = config(
        {"certificate-authority-data": encoded(PEM), "tls-server-name": "other"},
        {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key")},
    )
    found = kubeconfig.parse(as_data)
    assert found == ConnectionConfig(
        "https://host:1",
        authority=PEM,
        client_certificate="cert",
        client_key="key",
        server_name="other",
        namespace="ns",
    )
    path = tmp_path / "config"
    path.write_bytes(
        config(
            {"certificate-authority": "ca.pem", "insecure-skip-tls-verify": True},
            {"client-certificate": str(tmp_path / "cert.pem"), "tokenFile": "token"},
        )
    )
    found = kubeconfig.load(path)
    assert (found.authority, found.client_certificate, found.token) == (PEM, "cert", "secret")
    assert found.is_insecure


def test_context_without_a_user_is_anonymous() -> None:
    assert kubeconfig.parse(config(), context="two") == ConnectionConfig("https://host:1")


@pytest.mark.parametrize(
    "data, message",
    [
        pytest.param(b"a: [", "yaml: while parsing", id="no YAML"),
        pytest.param(b"", "current-context is not set", id="empty"),
        pytest.param(b"[1]", "not a kubeconfig", id="list"),
        pytest.param(b"kind: Pod", "not a kubeconfig", id="other kind"),
        pytest.param(b"kind: Config", "current-context is not set", id="nothing in it"),
        pytest.param(config(contexts=[]), 'context "one" does not exist', id="no context"),
        pytest.param(config(contexts="x"), 'context "one" does not exist', id="contexts no list"),
        pytest.param(config(clusters=[]), 'cluster "c" does not exist', id="no cluster"),
        pytest.param(config(users=[]), 'user "u" does not exist', id="no user"),
        pytest.param(config({"server": ""}), "no http or https server URL", id="no server"),
        pytest.param(config({"server": "unix:/x"}), "no http or https server URL", id="scheme"),
        pytest.param(config(user={"exec": {}}), "'exec' is not supported", id="exec"),
        pytest.param(
            config({"certificate-authority-data": "?"}),
            "certificate-authority-data is not PEM in base64",
            id="no base64",
        ),
        pytest.param(
            config({"certificate-authority": "/no/such"}), "unable to read /no/such", id="no file"
        ),
    ],
)
def test_unusable_file_is_rejected_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        kubeconfig.parse(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"cannot read .*/config: No such file"):
        kubeconfig.load(tmp_path / "config")


def test_scalars_are_text_except_null() -> None:
    text = b"current-context: on\ncontexts: null\nusers:\n- {name: 1234, user: {token: 0123}}\n"
    config = kubeconfig.Kubeconfig()
    config.add(kubeconfig.decode(text))
    assert config.current == "on"
    assert config.entries == {"clusters": {}, "users": {"1234": {"token": "0123"}}, "contexts": {}}
