# SPDX-License-Identifier: Apache-2.0
import pytest

from rdd.controllers import catalog
from rdd.daemon.managers.selection import select_controllers
from rdd.daemon.service.errors import ServiceError

GROUPS = {
    "notary": "rdd",
    "hostinfo": "rdd",
    "app": "app",
    "demo": "app",
    "kubernetes": "app",
    "limavm": "lima",
    "engine": "containers",
    "container": "containers",
}
ALL = tuple(GROUPS)


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        pytest.param("*", ALL, id="all"),
        pytest.param("", (), id="empty"),
        pytest.param(" , ,", (), id="only separators"),
        pytest.param("rdd", ("notary", "hostinfo"), id="group"),
        pytest.param("notary", ("notary",), id="name"),
        pytest.param("kubernetes", ("kubernetes",), id="kubernetes by name"),
        pytest.param("app", ("app", "demo", "kubernetes"), id="a group with a name of its own"),
        pytest.param("containers", ("engine", "container"), id="group, not the controller"),
        pytest.param("container", ("container",), id="controller, not the group"),
        pytest.param(" rdd , limavm ", ("notary", "hostinfo", "limavm"), id="spaces"),
        pytest.param("limavm,notary", ("notary", "limavm"), id="start order"),
        pytest.param("rdd,notary", ("notary", "hostinfo"), id="twice"),
        pytest.param("*,-app", ("notary", "hostinfo", "limavm", "engine", "container"), id="but"),
        pytest.param("-notary,*", ALL[1:], id="exclusion first"),
        pytest.param("rdd,-notary", ("hostinfo",), id="group but one"),
        pytest.param("notary,-rdd", (), id="an exclusion wins"),
        pytest.param("-notary", (), id="exclusions only"),
        pytest.param("*,-*", (), id="nothing at all"),
        pytest.param("app, - demo", ("app", "kubernetes"), id="space behind the sign"),
    ],
)
def test_selection_matches_controllers(selection: str, selected: tuple[str, ...]) -> None:
    assert select_controllers(selection, GROUPS) == selected


@pytest.mark.parametrize("selection", ["nonsense", "*,-nonsense", "rdd,nonsense", "nonsense,-*"])
def test_unknown_name_is_rejected_with_the_valid_ones(selection: str) -> None:
    with pytest.raises(ServiceError) as refused:
        select_controllers(selection, GROUPS)
    assert str(refused.value) == (
        "unknown controllers: nonsense; valid are *, app, container, containers, demo, engine, "
        "hostinfo, kubernetes, lima, limavm, notary, rdd"
    )


def test_all_unknown_names_are_listed() -> None:
    with pytest.raises(ServiceError, match=r"^unknown controllers: -a, b; valid are "):
        select_controllers("--a,b,rdd", GROUPS)


def test_daemon_selects_from_its_own_controllers_without_the_mock() -> None:
    assert select_controllers("*") == catalog.EMBEDDED
    with pytest.raises(ServiceError, match="unknown controllers: mock"):
        select_controllers("mock")
