# SPDX-License-Identifier: Apache-2.0
"""String formats of schemas and their validators.

Kubernetes checks a closed list of formats, by the rules of Go's standard
library where there is one; a format that is not on the list is a remark to
the reader and accepts everything. Names are compared without dashes
(date-time and datetime are the same).
"""

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import unquote

from rdd.schema.regexps import compile_pattern


class _Pattern:
    """A regular expression that is compiled when it is first used: all of them take 10 ms."""

    __slots__ = ("_compiled", "_flags", "_text")

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._text, self._flags)
        return self._compiled

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.compiled.fullmatch(text)


_UUID = _Pattern(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_UUID3 = _Pattern(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_UUID4 = _Pattern(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}")
_UUID5 = _Pattern(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}")
_BSON = _Pattern(r"[0-9a-fA-F]{24}")
_BASE64 = _Pattern(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_CARD = _Pattern(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]"
    r"|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})"
)
_SSN = _Pattern(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")
_HEX_COLOUR = _Pattern(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_BYTE = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_RGB_COLOUR = _Pattern(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)", re.ASCII)
_TIME = _Pattern(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_DATE = _Pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_GO_DURATION = _Pattern(r"[-+]?(?:0|(?:(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:ns|us|µs|μs|ms|s|m|h))+)")
_WORD_DURATION = _Pattern(r"\s*+(?:[0-9]++\s*+[A-Za-zµ]++\s*+)++", re.ASCII)
_WORD_UNIT = re.compile(r"(?<![0-9])[0-9]++\s*+([A-Za-zµ]++)", re.ASCII)
_SHORT_NAME = _Pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONG_NAME = _Pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SCHEME = _Pattern(r"[A-Za-z][A-Za-z0-9+.-]*")
_PORT = _Pattern(r"(?::[0-9]*)?")
_HOST = _Pattern(r"[A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"%\u0080-\U0010ffff-]*")
_USER = _Pattern(r"[A-Za-z0-9._~:!$&'()*+,;=%@-]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]++"  # possessive: no second try
_ADDRESS = _Pattern(
    rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[^"\\\r\n]|\\.)*")@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]\\\s]*\])'
)
_NAMED_ADDRESS = _Pattern(
    rf'\s*+(?:(?:{_ATOM}|"(?:[^"\\\r\n]|\\.)*+")[\s.]*+)*+<\s*+(?P<address>[^<>]*+)>\s*+'
)
_LETTER = r"a-zA-Z0-9\p{S}\p{L}"
_HOSTNAME = (
    rf"^([{_LETTER}]((-?[{_LETTER}]{{0,62}})?)|([{_LETTER}](([{_LETTER}-]{{0,61}}[{_LETTER}])?)(\.))"
    rf"{{1,}}([{_LETTER}])(-?[{_LETTER}]){{1,62}})$"
)


def is_uri(text: str) -> bool:
    """Return a URI with a scheme, or an absolute path (Go's url.ParseRequestURI)."""
    if not text or any(c < " " or c == "\x7f" for c in text):
        return False
    if text == "*":
        return True
    scheme, colon, rest = text.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        if colon and not scheme:
            return False
        scheme, rest = "", text
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return bool(scheme)
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, _, path = rest[2:].partition("/")
        return _is_authority(authority) and not _BAD_ESCAPE.search(path)
    return not _BAD_ESCAPE.search(rest)


def _is_authority(text: str) -> bool:
    user, at, host = text.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        return False
    if host.startswith("["):
        address, bracket, port = host.rpartition("]")
        return bool(bracket) and bool(_PORT.fullmatch(port)) and " " not in unquote(address)
    name, colon, port = host.rpartition(":")
    if colon and not _PORT.fullmatch(colon + port):
        return False
    return bool(_HOST.fullmatch(name if colon else host))


def is_email(text: str) -> bool:
    """Return an address, alone or as `Name <address>` (Go's mail.ParseAddress)."""
    named = _NAMED_ADDRESS.fullmatch(text)
    return bool(_ADDRESS.fullmatch((named["address"] if named else text).strip(" \t")))


def is_hostname(text: str) -> bool:
    """Return a host name; letters and symbols of any script are allowed."""
    if len(text.encode()) > 255 or any(len(p.encode()) > 63 for p in text.split(".")):
        return False
    return compile_pattern(_HOSTNAME).search(text) is not None


def is_ip(text: str) -> bool:
    """Return an IPv4 or IPv6 address without zone (Go's net.ParseIP)."""
    if "%" in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_cidr(text: str) -> bool:
    """Return an address with a prefix length (Go's net.ParseCIDR)."""
    address, slash, bits = text.partition("/")
    if not slash or not is_ip(address) or not bits.isascii() or not bits.isdigit():
        return False
    return int(bits) <= (128 if ":" in address else 32)


def is_mac(text: str) -> bool:
    """Return a 48-bit, 64-bit or 20-octet hardware address (Go's net.ParseMAC)."""
    for separator, digits, counts in (
        (":", 2, (6, 8, 20)),
        ("-", 2, (6, 8, 20)),
        (".", 4, (3, 4, 10)),
    ):
        groups = text.split(separator)
        if len(groups) in counts:
            return all(
                len(g) == digits and all(c in "0123456789abcdefABCDEF" for c in g) for g in groups
            )
    return False


def is_isbn10(text: str) -> bool:
    """Return a 10-digit book number with a correct check digit."""
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}X|[0-9]{10}", digits):
        return False
    total = sum((i + 1) * int(c) for i, c in enumerate(digits[:9]))
    return (total + 10 * (10 if digits[9] == "X" else int(digits[9]))) % 11 == 0


def is_isbn13(text: str) -> bool:
    """Return a 13-digit book number with a correct check digit."""
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    total = sum((3 if i % 2 else 1) * int(c) for i, c in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def is_credit_card(text: str) -> bool:
    """Return a card number of a known issuer with a correct check digit."""
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    total = 0
    for i, c in enumerate(reversed(digits)):
        n = int(c) * (2 if i % 2 else 1)
        total += n - 9 if n > 9 else n
    return total % 10 == 0


def is_date(text: str) -> bool:
    """Return a date as 2006-01-02."""
    if not _DATE.fullmatch(text):
        return False
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:])
    try:
        # Year 0 exists in Go's calendar and is a leap year, as 2000 is.
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def is_datetime(text: str) -> bool:
    """Return a date and time of RFC 3339."""
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    match = _TIME.fullmatch(parts[1])
    if match is None:
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_UNITS = (("ns", "nano"), ("us", "µs", "micro"), ("ms", "milli"), ("s", "sec"), ("m", "min"),
          ("h", "hr", "hour"), ("d", "day"), ("w", "wk", "week"))  # fmt: skip


def is_duration(text: str) -> bool:
    """Return a duration as Go writes it (1h30m), or in words (3 days)."""
    if _GO_DURATION.fullmatch(text):
        return True
    if not _WORD_DURATION.fullmatch(text):
        return False
    return any(
        unit in variants or unit.startswith(variants[-1])
        for unit in (m.lower() for m in _WORD_UNIT.findall(text))
        for variants in _UNITS
    )


_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": lambda t: bool(_BSON.fullmatch(t)),
    "uri": is_uri,
    "email": is_email,
    "hostname": is_hostname,
    "ipv4": lambda t: "." in t and is_ip(t),
    "ipv6": lambda t: ":" in t and is_ip(t),
    "cidr": is_cidr,
    "mac": is_mac,
    "uuid": lambda t: bool(_UUID.fullmatch(t)),
    "uuid3": lambda t: bool(_UUID3.fullmatch(t)),
    "uuid4": lambda t: bool(_UUID4.fullmatch(t)),
    "uuid5": lambda t: bool(_UUID5.fullmatch(t)),
    "isbn": lambda t: is_isbn10(t) or is_isbn13(t),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "creditcard": is_credit_card,
    "ssn": lambda t: bool(_SSN.fullmatch(t)),
    "hexcolor": lambda t: bool(_HEX_COLOUR.fullmatch(t)),
    "rgbcolor": lambda t: bool(_RGB_COLOUR.fullmatch(t)),
    "byte": lambda t: bool(_BASE64.fullmatch(t)),
    "password": lambda t: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_datetime,
    "k8sshortname": lambda t: len(t) <= 63 and bool(_SHORT_NAME.fullmatch(t)),
    "k8slongname": lambda t: len(t) <= 253 and bool(_LONG_NAME.fullmatch(t)),
}  # fmt: skip

_NUMERIC = frozenset(
    ("int32", "int64", "uint32", "uint64", "float", "float32", "double", "float64")
)


def string_check(name: str) -> Callable[[str], bool] | None:
    """Return the check of a string format, or None if the format means nothing to Kubernetes."""
    return _CHECKS.get(name.replace("-", ""))


def is_effective(name: str) -> bool:
    """Return whether a format takes part in validation at all."""
    return name in _NUMERIC or name.replace("-", "") in _CHECKS
