# SPDX-License-Identifier: Apache-2.0
"""Which names, label keys and label values are allowed.

Each function returns Kubernetes' explanations of what is wrong, an empty list
if nothing is. They run on every write for every label, so the common case is
one match of a compiled expression; the explanations are assembled only after
that failed. Lengths count bytes, as Go's len does.

`is_prefix` is for generateName: the name will be continued, so a trailing dash
is fine.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from rdd.api import fielderrors
from rdd.api.fielderrors import FieldError

LABEL_FORMAT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_FORMAT = rf"{LABEL_FORMAT}(\.{LABEL_FORMAT})*"
DNS1035_FORMAT = "[a-z]([-a-z0-9]*[a-z0-9])?"
NAME_PART_FORMAT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE_FORMAT = f"({NAME_PART_FORMAT})?"
CONFIG_KEY_FORMAT = "[-._a-zA-Z0-9]+"
C_IDENTIFIER_FORMAT = "[A-Za-z_][A-Za-z0-9_]*"

LABEL_MAX = 63
SUBDOMAIN_MAX = 253

_is_label = re.compile(LABEL_FORMAT).fullmatch
_is_subdomain = re.compile(SUBDOMAIN_FORMAT).fullmatch
_is_dns1035 = re.compile(DNS1035_FORMAT).fullmatch
_is_name_part = re.compile(NAME_PART_FORMAT).fullmatch
_is_qualified = re.compile(f"({SUBDOMAIN_FORMAT}/)?{NAME_PART_FORMAT}").fullmatch
_is_label_value = re.compile(LABEL_VALUE_FORMAT).fullmatch
_is_config_key = re.compile(CONFIG_KEY_FORMAT).fullmatch
_is_c_identifier = re.compile(C_IDENTIFIER_FORMAT).fullmatch

_EXPLAIN_NAME_PART = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def regex_error(explanation: str, pattern: str, *examples: str) -> str:
    """Return the explanation followed by examples and the expression, in Kubernetes' form."""
    if not examples:
        return f"{explanation} (regex used for validation is '{pattern}')"
    # the doubled space before "or" is Kubernetes' own
    samples = " or ".join(f"'{e}', " for e in examples)
    return f"{explanation} (e.g. {samples}regex used for validation is '{pattern}')"


def _masked(name: str) -> str:
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def _too_long(text: str, maximum: int) -> bool:
    return len(text) > maximum or (not text.isascii() and len(text.encode()) > maximum)


def dns1123_label_errors(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return errors of a lower-case DNS label: names of namespaces."""
    if is_prefix:
        name = _masked(name)
    if len(name) <= LABEL_MAX and _is_label(name):
        return []
    errors = []
    if _too_long(name, LABEL_MAX):
        errors.append(f"must be no more than {LABEL_MAX} characters")
    if not _is_label(name):
        if _is_subdomain(name):
            errors.append("must not contain dots")
        else:
            explanation = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters "
                "or '-', and must start and end with an alphanumeric character"
            )
            errors.append(regex_error(explanation, LABEL_FORMAT, "my-name", "123-abc"))
    return errors


def dns1123_subdomain_errors(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return errors of a lower-case DNS subdomain: names of most objects."""
    if is_prefix:
        name = _masked(name)
    if len(name) <= SUBDOMAIN_MAX and _is_subdomain(name):
        return []
    errors = []
    if _too_long(name, SUBDOMAIN_MAX):
        errors.append(f"must be no more than {SUBDOMAIN_MAX} characters")
    if not _is_subdomain(name):
        explanation = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character"
        )
        errors.append(regex_error(explanation, SUBDOMAIN_FORMAT, "example.com"))
    return errors


def dns1035_label_errors(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return errors of a DNS label that starts with a letter.

    Resource and version names of CRDs.
    """
    if is_prefix:
        name = _masked(name)
    if len(name) <= LABEL_MAX and _is_dns1035(name):
        return []
    errors = []
    if _too_long(name, LABEL_MAX):
        errors.append(f"must be no more than {LABEL_MAX} characters")
    if not _is_dns1035(name):
        explanation = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        errors.append(regex_error(explanation, DNS1035_FORMAT, "my-name", "abc-123"))
    return errors


@lru_cache(maxsize=4096)
def _is_short_qualified_name(name: str) -> bool:
    # Up to 63 bytes in total, no part can be too long. Label keys repeat on every object, and
    # a cached answer costs a third of a match.
    return _is_qualified(name) is not None


def qualified_name_errors(name: str) -> list[str]:
    """Return errors of `[subdomain/]name`: keys of labels and annotations, finalizers."""
    if len(name) <= LABEL_MAX and _is_short_qualified_name(name):
        return []
    errors: list[str] = []
    prefix, slash, part = name.rpartition("/")
    if "/" in prefix:
        sample = regex_error(
            f"a valid label key {_EXPLAIN_NAME_PART}",
            NAME_PART_FORMAT,
            *("MyName", "my.name", "123-abc"),
        )
        return [
            f"{sample} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {e}" for e in _prefix_errors(prefix)]
    if not part:
        errors.append("name part must be non-empty")
    elif _too_long(part, LABEL_MAX):
        errors.append(f"name part must be no more than {LABEL_MAX} bytes")
    if not _is_name_part(part):
        samples = ("MyName", "my.name", "123-abc")
        errors.append(regex_error(f"name part {_EXPLAIN_NAME_PART}", NAME_PART_FORMAT, *samples))
    return errors


def _prefix_errors(prefix: str) -> list[str]:
    # Kubernetes checks prefixes with its newer package, which counts bytes in its wording.
    errors = dns1123_subdomain_errors(prefix)
    return [e.replace("253 characters", "253 bytes") for e in errors]


def label_value_errors(value: str) -> list[str]:
    """Return errors of the value of a label."""
    if len(value) <= LABEL_MAX and _is_label_value(value):
        return []
    errors = []
    if _too_long(value, LABEL_MAX):
        errors.append(f"must be no more than {LABEL_MAX} bytes")
    if not _is_label_value(value):
        explanation = (
            f"a valid label must be an empty string or {_EXPLAIN_NAME_PART.removeprefix('must ')}"
        )
        samples = ("MyValue", "my_value", "12345")
        errors.append(regex_error(explanation, LABEL_VALUE_FORMAT, *samples))
    return errors


def path_segment_name_errors(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return errors of a name that may hold anything that fits into a URL path.

    Names of RBAC objects.
    """
    if not is_prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{c}'" for c in "/%" if c in name]


is_ordinary_config_key = re.compile(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,252}").fullmatch
"""Match almost all valid keys at once: a ConfigMap has many, and every write checks them all."""


def config_map_key_errors(key: str) -> list[str]:
    """Return errors of a key of a ConfigMap or Secret."""
    errors = []
    if _too_long(key, SUBDOMAIN_MAX):
        errors.append(f"must be no more than {SUBDOMAIN_MAX} characters")
    if not _is_config_key(key):
        explanation = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        samples = ("key.name", "KEY_NAME", "key-name")
        errors.append(regex_error(explanation, CONFIG_KEY_FORMAT, *samples))
    if key in (".", ".."):
        errors.append(f"must not be '{key}'")
    elif key.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def c_identifier_errors(name: str) -> list[str]:
    """Return errors of an identifier as in C: names of CEL variables."""
    if _is_c_identifier(name):
        return []
    explanation = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    samples = ("my_name", "MY_NAME", "MyName")
    return [regex_error(explanation, C_IDENTIFIER_FORMAT, *samples)]


def fully_qualified_name_errors(name: str, *, path: str) -> list[FieldError]:
    """Return errors of a domain of at least three segments: names of webhooks."""
    if not name:
        return [fielderrors.required(path)]
    errors = dns1123_subdomain_errors(name)
    if errors:
        return [fielderrors.invalid(path, name, ",".join(errors))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [fielderrors.invalid(path, name, detail)]
    return []


NameErrors = Callable[..., list[str]]
"""A check of object names: called as `check(name, is_prefix=…)`."""
