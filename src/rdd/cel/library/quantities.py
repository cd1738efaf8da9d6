# SPDX-License-Identifier: Apache-2.0
"""Resource quantities: `quantity('1.5Gi')` and its methods."""

from rdd.api.quantity import Quantity, QuantityError
from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import Library, traversal
from rdd.cel.values import TYPES

LIBRARY = Library()
TYPES[Quantity] = t.QUANTITY


def parse(text: str) -> Quantity:
    """Return the quantity a text stands for. Raises EvaluationError."""
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _as_integer(quantity: Quantity) -> int:
    value = quantity.as_int64()
    if value is None:
        raise EvaluationError("cannot convert value to integer")
    return value


def _add(left: Quantity, right: Quantity | int) -> Quantity:
    try:
        return left + (right if isinstance(right, Quantity) else Quantity.of(right))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _subtract(left: Quantity, right: Quantity | int) -> Quantity:
    return _add(left, -(right if isinstance(right, Quantity) else Quantity.of(right)))


def _declare() -> None:
    quantity = t.QUANTITY
    both, with_int = (quantity, quantity), (quantity, t.INT)
    function, method = LIBRARY.function, LIBRARY.method
    function("quantity", "string_to_quantity", (t.STRING,), quantity, parse, charge=traversal)
    function(
        "isQuantity", "is_quantity_string", (t.STRING,), t.BOOL, _is_quantity, charge=traversal
    )
    function("sign", "quantity_sign", (quantity,), t.INT, lambda q: q.sign)
    method("isGreaterThan", "quantity_is_greater_than", both, t.BOOL, lambda a, b: a > b)
    method("isLessThan", "quantity_is_less_than", both, t.BOOL, lambda a, b: a < b)
    method("compareTo", "quantity_compare_to", both, t.INT, Quantity.compare)
    name = "asApproximateFloat"
    method(name, "quantity_get_float", (quantity,), t.DOUBLE, Quantity.as_approximate_float)
    method("asInteger", "quantity_get_int", (quantity,), t.INT, _as_integer)
    method("isInteger", "quantity_is_integer", (quantity,), t.BOOL, lambda q: q.is_integer)
    method("add", "quantity_add", both, quantity, _add)
    method("add", "quantity_add_int", with_int, quantity, _add)
    method("sub", "quantity_sub", both, quantity, _subtract)
    method("sub", "quantity_sub_int", with_int, quantity, _subtract)


_declare()
