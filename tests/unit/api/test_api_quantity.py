# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api.quantity import BINARY_SI, DECIMAL_EXPONENT, DECIMAL_SI, Quantity, QuantityError

FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"), ("000", "0"), ("0.0", "0"), ("1", "1"), ("1000", "1k"), ("1000000", "1M"),
        ("1.5", "1500m"), (".5", "500m"), ("1000m", "1"), ("1500m", "1500m"), ("1.25m", "1250u"),
        ("1Ki", "1Ki"), ("1024Ki", "1Mi"), ("1.5Gi", "1536Mi"), ("0.1Ki", "102400m"),
        ("512", "512"), ("-1.5Gi", "-1536Mi"), ("1e3", "1e3"), ("1000e3", "1e6"), ("1E", "1E"),
        ("1e19", "10e18"), ("9223372036854775808", "9223372036854775808"),
        ("100Ei", "9223372036854775807"), ("0.0000000001", "1n"), ("-0.0000000001", "-1n"),
        ("1e-10", "1e-9"), ("1e1000000000", "10e999999999"),
        # already canonical as far as Kubernetes looks, so the text is kept
        ("1.500", "1.500"), ("+5", "+5"), ("5.", "5."),
    ],
)  # fmt: skip
def test_quantities_are_written_canonically(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT), ("a", FORMAT), ("1x", FORMAT), ("1 ", FORMAT), ("1.2.3", FORMAT),
        ("1e", "unable to parse quantity's suffix"), ("1mm", "unable to parse quantity's suffix"),
        ("1KiB", FORMAT), ("--1", "unable to parse quantity's suffix"),
        ("1e99999999999999999999", "unable to parse quantity's suffix"),
        ("9" * 5000, "unable to parse numeric part of quantity"),
    ],
)  # fmt: skip
def test_errors_are_worded_as_in_kubernetes(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("5k", 5000), ("1Mi", 2**20), ("0", 0), ("-3", -3), ("1E", 10**18)],
)
def test_small_integers_report_is_integer(text: str, value: int) -> None:
    quantity = Quantity.parse(text)
    assert quantity.as_int64() == value
    assert quantity.is_integer


@pytest.mark.parametrize("text", ["1.5", "1000m", "1.5Gi", "100E", "9223372036854775808", "1e30"])
def test_other_quantities_are_not_even_if_their_value_is_one(text: str) -> None:
    assert Quantity.parse(text).as_int64() is None


def test_values_are_rounded_away_from_zero_and_bounded() -> None:
    values = [Quantity.parse(t).value() for t in ("1.1", "-1.1", "1500m", "1e30", "-1e30", "2Ki")]
    assert values == [2, -2, 2, 2**63 - 1, -(2**63) + 1, 2048]


def test_floats_are_approximate_and_may_be_infinite() -> None:
    floats = [Quantity.parse(t).as_approximate_float() for t in ("1.5", "1e400", "-1e400", "100m")]
    assert floats == [1.5, float("inf"), float("-inf"), 0.1]
    assert Quantity(10**400, 0, is_big=True).as_approximate_float() == float("inf")
    assert Quantity(1, -400, is_big=True).as_approximate_float() == 0.0


def test_sums_have_the_suffixes_of_the_first_that_is_not_zero() -> None:
    parse = Quantity.parse
    assert str(parse("1Gi") + parse("512Mi")) == "1536Mi"
    assert str(parse("0") + parse("1Ki")) == "1Ki"
    assert str(parse("1Ki") + parse("0")) == "1Ki"
    assert str(parse("1") - parse("1500m")) == "-500m"
    assert (parse("0") - parse("1Ki")).format == BINARY_SI
    assert str(Quantity.of(2**63 - 1) + Quantity.of(1)) == str(2**63)


def test_exponents_of_users_are_never_written_out() -> None:
    huge, tiny = Quantity.parse("1e2000000000"), Quantity.parse("1n")
    assert huge > tiny
    assert tiny < huge
    assert huge == Quantity.parse("10e1999999999")
    assert hash(huge) == hash(Quantity.parse("10e1999999999"))
    assert huge.value() == 2**63 - 1
    assert -huge < tiny
    with pytest.raises(QuantityError, match="too many digits"):
        huge + tiny
    long = Quantity(10**990, 0, is_big=True)
    with pytest.raises(QuantityError, match="too many digits"):
        long + Quantity(1, -900, is_big=True) + Quantity(1, -1800, is_big=True)


def test_quantities_equal_only_quantities() -> None:
    assert Quantity.of(1) != 1
    assert Quantity.of(0).sign == 0
    assert Quantity.parse("1000m").sign == 1


_NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,12})?\Z")
_SUFFIXES = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
     "e3", "e-3", "E6"]
)  # fmt: skip
_TEXTS = st.builds(lambda n, s: n + s, _NUMBERS, _SUFFIXES)
_QUANTITIES = _TEXTS.map(Quantity.parse)


def _exact(q: Quantity) -> Fraction:
    return Fraction(q.unscaled) * Fraction(10) ** q.scale


@settings(max_examples=200, deadline=None)
@given(_QUANTITIES)
def test_the_text_reads_back_to_the_same_quantity(quantity: Quantity) -> None:
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert hash(again) == hash(quantity)
    assert str(again) == str(quantity)


@settings(max_examples=200, deadline=None)
@given(_QUANTITIES, _QUANTITIES)
def test_order_and_arithmetic_are_exact(a: Quantity, b: Quantity) -> None:
    x, y = _exact(a), _exact(b)
    assert a.compare(b) == (x > y) - (x < y)
    assert (a == b) == (x == y)
    assert (a < b) == (x < y)
    assert (a >= b) == (x >= y)
    assert _exact(a + b) == x + y
    assert _exact(a - b) == x - y
    if a == b:
        assert hash(a) == hash(b)


@settings(max_examples=200, deadline=None)
@given(
    _NUMBERS,
    st.sampled_from([("m", Fraction(1, 1000)), ("G", Fraction(10**9)), ("e3", Fraction(1000))]),
)
def test_a_text_stands_for_its_number_times_its_suffix(
    number: str, suffix: tuple[str, Fraction]
) -> None:
    quantity = Quantity.parse(number + suffix[0])
    expected = Fraction(number) * suffix[1]
    # below one nano the value is rounded away from zero
    assert abs(_exact(quantity) - expected) < Fraction(1, 10**9)
    assert abs(_exact(quantity)) >= abs(expected)
    assert quantity.format in (DECIMAL_SI, DECIMAL_EXPONENT)
