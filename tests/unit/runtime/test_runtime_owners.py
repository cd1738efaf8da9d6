# SPDX-License-Identifier: Apache-2.0
"""Owner references and owned-by finalizers of single objects."""

from typing import Any

import pytest

from rdd.api.types import Object
from rdd.runtime import (
    AlreadyOwned,
    controller_of,
    is_controlled_by,
    owned_by,
    owner_reference,
    with_controller,
)
from rdd.runtime.finalizers import deletion_refusal, owner_kind


def thing(name: str, *, namespace: str = "ns", **metadata: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata},
    }


def test_sets_the_controller_in_a_copy() -> None:
    child = thing("child")
    owned = with_controller(child, thing("owner"))
    assert controller_of(child) is None
    assert controller_of(owned) == owner_reference(thing("owner"))
    assert is_controlled_by(owned, thing("owner"))
    assert not is_controlled_by(owned, thing("owner", uid="another"))
    assert with_controller(owned, thing("owner")) == owned


def test_rejects_a_second_controller() -> None:
    owned = with_controller(thing("child"), thing("owner"))
    with pytest.raises(AlreadyOwned, match="child is already controlled by Thing owner"):
        with_controller(owned, thing("other"))


def test_keeps_owners_that_do_not_control() -> None:
    friend = owner_reference(thing("friend"), is_controller=False)
    owned = with_controller(thing("child", ownerReferences=[friend]), thing("owner"))
    assert owned["metadata"]["ownerReferences"] == [friend, owner_reference(thing("owner"))]


def test_ownership_does_not_cross_namespaces() -> None:
    with pytest.raises(ValueError, match="Thing ns/owner cannot own an object in other"):
        with_controller(thing("child", namespace="other"), thing("owner"))
    cluster_scoped = thing("owner", namespace="")
    assert controller_of(with_controller(thing("child"), cluster_scoped)) is not None


def test_finalizer_contains_the_kind_of_the_owner() -> None:
    owned = thing("child", finalizers=["x/y", owned_by("App")])
    assert owner_kind(owned) == "App"
    assert owner_kind(thing("child")) == ""
    assert deletion_refusal(thing("child")) == ""
    assert deletion_refusal(owned) == (
        'cannot delete "child": owned by App; delete the App resource instead'
    )
