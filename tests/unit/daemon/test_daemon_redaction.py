# SPDX-License-Identifier: Apache-2.0
"""Secrets are redacted, and other text stays readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdd.daemon.support.redaction import REDACTED, Redactor

JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\nabc=\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param("Authorization: Bearer abc.def", "abc.def", id="bearer"),
        pytest.param("authorization: bearer abcdef", "abcdef", id="lower case"),
        pytest.param(f"got {JWT} from", JWT, id="JSON Web Token"),
        pytest.param(f"x\n{KEY}\ny", "MHcCAQEE", id="private key"),
        pytest.param(KEY.replace("\n", "\\n"), "MHcCAQEE", id="private key in a log line"),
        pytest.param("proxy http://me:pa55@proxy:3128/", "pa55", id="password in a URL"),
        pytest.param("password=hunter22 next", "hunter22", id="password"),
        pytest.param('{"token": "abc-def"}', "abc-def", id="JSON member"),
        pytest.param('msg="{\\"token\\":\\"abc-def\\"}"', "abc-def", id="quoted JSON"),
        pytest.param("client-key-data: LS0tLS1=", "LS0tLS1", id="kubeconfig"),
        pytest.param("Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", id="basic"),
    ],
)
def test_likely_secrets_are_replaced(text: str, secret: str) -> None:
    found = Redactor().text(text)
    assert secret not in found
    assert REDACTED in found


@pytest.mark.parametrize(
    "text",
    [
        'level=info msg="serviceaccounts \\"default\\" created"',
        "GET https://127.0.0.1:6445/api/v1/secrets?limit=500",
        "the token has expired",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert Redactor().text(text) == text


@given(st.text("abcdef0123456789-", min_size=8, max_size=40), st.text(), st.text())
def test_known_secrets_never_survive(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    assert secret not in redactor.text(before + secret + after).replace(REDACTED, "\0")


def test_secrets_keep_their_keys_and_lose_their_values() -> None:
    found = Redactor().object(
        {
            "kind": "Secret",
            "metadata": {
                "name": "s",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{...}"},
            },
            "data": {"a": "c2VjcmV0"},
            "stringData": {"b": "x"},
            "type": "Opaque",
        }
    )
    assert found["data"] == {"a": REDACTED}
    assert found["stringData"] == {"b": REDACTED}
    assert list(found["metadata"]["annotations"].values()) == [REDACTED]
    assert found["type"] == "Opaque"


def test_members_with_secret_names_are_replaced_at_any_depth() -> None:
    found = Redactor().object(
        {"kind": "X", "spec": [{"password": "p", "apiToken": "t", "tokens": 3, "note": JWT}]}
    )
    assert found["spec"] == [
        {"password": REDACTED, "apiToken": REDACTED, "tokens": 3, "note": REDACTED}
    ]


def test_variables_with_secret_names_are_replaced() -> None:
    variables = {
        "GITHUB_TOKEN": "x",
        "AWS_ACCESS_KEY_ID": "y",
        "HTTP_PROXY": "http://u:pw@h",
        "PATH": "/bin",
        "KEYBOARD": "de",
    }
    assert Redactor().environment(variables) == {
        "AWS_ACCESS_KEY_ID": REDACTED,
        "GITHUB_TOKEN": REDACTED,
        "HTTP_PROXY": f"http://u:{REDACTED}@h",
        "KEYBOARD": "de",
        "PATH": "/bin",
    }


RANDOM = [
    "AKIA7GQ2ZX4LPM8RT5WV",
    "ghp_x7Kd92LmQ4vRt8Zp1Ws6Yb3Nc5Hg0Jf2Ae",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY9",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "b2Vj3R5dXJpdHk6cGFzc3dvcmQ0NTY3ODkw",
    "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8t",
]
READABLE = [
    "3b241101-e2bb-4255-8caf-4136c566a962",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "/home/anna/.local/share/rancher-desktop-2/backups/20261118T093227Z-daily.db",
    "io.rancherdesktop.app.v1alpha1.ValidatingAdmissionPolicyBindingList",
    "controller_runtime_reconcile_time_seconds_bucket",
    "rdd-controller-manager-7d9f8-x2x4z",
    "the event loop was held for 306 ms by rdd.api.selectors._tokens",
    "time=2026-11-18T09:31:29Z level=warning",
    "V1CustomResourceDefinitionNames2",
    "kubernetes.io/metadata.name",
]


@pytest.mark.parametrize("secret", RANDOM)
def test_random_texts_are_replaced_whatever_their_name_is(secret: str) -> None:
    redactor = Redactor()
    for text in (secret, f"note {secret} end", f"colour={secret}", f'{{"a":"{secret}"}}'):
        assert secret not in redactor.text(text)
    found = redactor.object({"kind": "Widget", "spec": {"colour": secret, "list": [secret]}})
    assert secret not in str(found)
    assert redactor.text(secret) == redactor.text(f"x {secret}").removeprefix("x ")
    assert redactor.environment({"COLOUR": secret})["COLOUR"] != secret


@pytest.mark.parametrize("text", READABLE)
def test_names_and_identifiers_stay(text: str) -> None:
    assert Redactor().text(text) == text


def test_kinds_that_hold_anything_lose_their_values() -> None:
    redactor = Redactor()
    mine = {"kind": "ConfigMap", "metadata": {"namespace": "default"}, "data": {"note": "blue"}}
    assert redactor.object(mine)["data"] == {"note": REDACTED}
    mine["binaryData"] = {"b": "Ymx1ZQ=="}
    assert redactor.object(mine)["binaryData"] == {"b": REDACTED}
    system = {"kind": "configmaps", "metadata": {"namespace": "rdd-system"}, "data": {"a": "b"}}
    assert redactor.object(system)["data"] == {"a": "b"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["A=blue", "B"], [f"A={REDACTED}", f"B={REDACTED}"]),
        ([{"name": "A", "value": "blue"}], [{"name": "A", "value": REDACTED}]),
        ({"A": "blue"}, {"A": REDACTED}),
        ("blue", REDACTED),
        (None, None),
    ],
)
def test_environments_keep_their_names_only(given: object, shown: object) -> None:
    assert Redactor().value({"status": {"env": given}}) == {"status": {"env": shown}}
