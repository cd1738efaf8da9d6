# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import name_validation

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NAME_PART = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "1", "a" * 253, "a-1.b-2.c"])
def test_subdomains_are_names(name: str) -> None:
    assert name_validation.dns1123_subdomain_errors(name) == []


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a-", "a..b", "a/b", ".", "a b", "ü", "a\n"]
)
def test_rejects_other_texts_as_subdomains(name: str) -> None:
    assert name_validation.dns1123_subdomain_errors(name) == [SUBDOMAIN]


def test_lengths_are_counted_in_bytes() -> None:
    too_long = "must be no more than 253 characters"
    assert name_validation.dns1123_subdomain_errors("a" * 254) == [too_long]
    assert name_validation.dns1123_subdomain_errors("ü" * 127) == [too_long, SUBDOMAIN]
    assert name_validation.label_value_errors("ü" * 32) == ["must be no more than 63 bytes", VALUE]


def test_a_prefix_may_end_with_a_dash() -> None:
    assert name_validation.dns1123_subdomain_errors("web-", is_prefix=True) == []
    assert name_validation.dns1123_label_errors("web-", is_prefix=True) == []
    assert name_validation.dns1035_label_errors("web-", is_prefix=True) == []
    assert name_validation.dns1123_subdomain_errors("-", is_prefix=True) == [SUBDOMAIN]
    assert name_validation.dns1123_subdomain_errors("Web-", is_prefix=True) == [SUBDOMAIN]


def test_label_errors_mention_dots() -> None:
    assert name_validation.dns1123_label_errors("a.b") == ["must not contain dots"]
    assert name_validation.dns1123_label_errors("A") == [LABEL]
    assert name_validation.dns1123_label_errors("a" * 64) == ["must be no more than 63 characters"]
    assert name_validation.dns1123_label_errors("a-1") == []


def test_dns1035_labels_start_with_a_letter() -> None:
    assert name_validation.dns1035_label_errors("a1") == []
    assert name_validation.dns1035_label_errors("1a")[0].startswith(
        "a DNS-1035 label must consist of"
    )
    assert name_validation.dns1035_label_errors("a" * 64) == ["must be no more than 63 characters"]


@pytest.mark.parametrize("name", ["a", "A_b.c", "example.com/Name", "a/b", "x" * 63])
def test_qualified_names(name: str) -> None:
    assert name_validation.qualified_name_errors(name) == []


def test_long_qualified_names_are_valid_if_each_part_is() -> None:
    assert name_validation.qualified_name_errors("a" * 253 + "/" + "b" * 63) == []


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        pytest.param("", ["name part must be non-empty", f"name part {NAME_PART}"], id="empty"),
        pytest.param("a b", [f"name part {NAME_PART}"], id="bad character"),
        pytest.param("/x", ["prefix part must be non-empty"], id="empty prefix"),
        pytest.param("A.B/c", [f"prefix part {SUBDOMAIN}"], id="bad prefix"),
        pytest.param("x" * 64, ["name part must be no more than 63 bytes"], id="long name"),
        pytest.param(
            "a" * 254 + "/b", ["prefix part must be no more than 253 bytes"], id="long prefix"
        ),
        pytest.param(
            "a/b/c",
            [
                f"a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')"
            ],
            id="two slashes",
        ),
    ],
)
def test_errors_of_qualified_names(name: str, errors: list[str]) -> None:
    assert name_validation.qualified_name_errors(name) == errors


def test_label_values() -> None:
    assert name_validation.label_value_errors("") == []
    assert name_validation.label_value_errors("a.B_c-1") == []
    assert name_validation.label_value_errors("-b") == [VALUE]
    assert name_validation.label_value_errors("b\n") == [VALUE]


def test_path_segments_may_be_anything_but_path_syntax() -> None:
    assert name_validation.path_segment_name_errors("system:node: x") == []
    assert name_validation.path_segment_name_errors("..") == ["may not be '..'"]
    assert name_validation.path_segment_name_errors("..", is_prefix=True) == []
    assert name_validation.path_segment_name_errors("a/%") == [
        "may not contain '/'",
        "may not contain '%'",
    ]


def test_config_map_keys() -> None:
    assert name_validation.config_map_key_errors("a.b_c-D") == []
    assert name_validation.config_map_key_errors("..") == ["must not be '..'"]
    assert name_validation.config_map_key_errors("..a") == ["must not start with '..'"]
    assert name_validation.config_map_key_errors("a/b") == [
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
        "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
        "'[-._a-zA-Z0-9]+')"
    ]
    assert name_validation.config_map_key_errors("a" * 254) == [
        "must be no more than 253 characters"
    ]


def test_c_identifiers() -> None:
    assert name_validation.c_identifier_errors("_a1") == []
    assert name_validation.c_identifier_errors("1a")[0].startswith(
        "a valid C identifier must start with"
    )


def test_webhook_names_have_three_segments() -> None:
    def errors(name: str) -> list[str]:
        return [str(e) for e in name_validation.fully_qualified_name_errors(name, path="name")]

    assert errors("a.example.com") == []
    assert errors("") == ["name: Required value"]
    assert errors("example.com") == [
        'name: Invalid value: "example.com": should be a domain with at least three segments '
        "separated by dots"
    ]
    assert errors("A.b.c") == [f'name: Invalid value: "A.b.c": {SUBDOMAIN}']


def test_an_expression_without_examples() -> None:
    assert name_validation.regex_error("no", "x+") == "no (regex used for validation is 'x+')"


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("aA0-._/ü "), max_size=70))
@pytest.mark.parametrize(
    "check",
    [
        name_validation.dns1123_label_errors,
        name_validation.dns1123_subdomain_errors,
        name_validation.dns1035_label_errors,
    ],
)
def test_allowed_names_fit_into_urls_and_file_names(
    check: Callable[[str], list[str]], name: str
) -> None:
    if not check(name):
        assert name == name.lower()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
        assert name[0] != "-" and name[-1] not in "-."


@given(
    st.one_of(st.text(max_size=6), st.text(alphabet="ab.-_", max_size=4), st.just("k" * 253))
    | st.sampled_from(["k" * 254, "key\n", "é", "..", ".", "..k"])
)
def test_ordinary_keys_have_no_errors(key: str) -> None:
    if name_validation.is_ordinary_config_key(key):
        assert name_validation.config_map_key_errors(key) == []


@pytest.mark.parametrize("key", ["k", "KEY_NAME", "key-name", "key.name", "-", "k" * 253])
def test_common_keys_are_ordinary(key: str) -> None:
    assert name_validation.is_ordinary_config_key(key)
