# SPDX-License-Identifier: Apache-2.0
"""The catalog of kinds, the dump for packaging, and the reference in the documentation."""

import sys
from pathlib import Path

import pytest
import yaml
from tests.programs import run_program

from rdd.kinds import catalog, reference
from rdd.kinds.__main__ import crds_yaml, main
from rdd.kinds.container import Container, ContainerCreateRequest
from rdd.kinds.kind import Kind

PAGE = Path(__file__).parents[3] / "docs" / "kinds.md"


def subclasses(of: type[Kind]) -> set[type[Kind]]:
    found = {kind for kind in of.__subclasses__() if kind.__module__.startswith("rdd.kinds.")}
    return found.union(*(subclasses(kind) for kind in found))


def test_catalog_has_every_kind_once() -> None:
    assert sorted(catalog.ALL, key=str) == sorted(subclasses(Kind), key=str)
    assert len(catalog.ALL) == 24


def test_every_kind_is_installed_by_one_controller_and_by_the_mock() -> None:
    assert {name: [k.plural for k in kinds] for name, kinds in catalog.BY_CONTROLLER.items()} == {
        "app": ["apps"],
        "demo": ["demos"],
        "diagnostics": ["diagnostics"],
        "limavm": ["limavms"],
        "container": ["containers", "containercreaterequests"],
        "containernamespace": ["containernamespaces"],
        "image": [
            "images",
            "imagepullrequests",
            "imagepushrequests",
            "imagescanrequests",
            "imagebuildrequests",
            "imagetagrequests",
        ],
        "network": ["networks", "networkcreaterequests"],
        "volume": ["volumes", "volumecreaterequests"],
        "notary": ["notaries"],
        "configmapreplicaset": ["configmapreplicasets"],
        "hostinfo": ["hostinfos"],
        "resource": ["resources", "checkouts"],
        "urlmonitor": ["urlmonitors"],
        "snapshot": ["snapshots"],
        "mock": [kind.plural for kind in catalog.ALL],
    }


def test_kinds_of_several_controllers_are_listed_once() -> None:
    assert catalog.kinds_of("container", "engine") == (Container, ContainerCreateRequest)
    assert catalog.kinds_of("container", "mock")[2:] == tuple(
        kind for kind in catalog.ALL if kind not in (Container, ContainerCreateRequest)
    )
    assert catalog.crds_of("engine", "kubernetes") == []


def test_importing_all_kinds_imports_no_large_module() -> None:
    code = "import sys, rdd.kinds.catalog; print(*sys.modules)"
    done = run_program([sys.executable, "-c", code], check=True)
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("rdd.")}
    light = {"rdd.api", "rdd.api.names", "rdd.api.types"}
    light |= {"rdd.base", "rdd.base.container_logs"}
    assert {name for name in ours if not name.startswith("rdd.kinds")} <= light
    assert loaded & {"asyncio", "dataclasses", "inspect", "json", "yaml"} == set()


def test_dump_is_the_definitions() -> None:
    assert list(yaml.safe_load_all(crds_yaml())) == catalog.crds_of("mock")
    assert list(yaml.safe_load_all(crds_yaml("app", "image"))) == catalog.crds_of("app", "image")


def test_dump_is_a_command() -> None:
    done = run_program([sys.executable, "-m", "rdd.kinds", "crds", "app"])
    assert (done.returncode, done.stderr, done.stdout) == (0, "", crds_yaml("app"))


def test_rejects_dump_of_unknown_controllers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        SystemExit, match="unknown controller apps; valid controllers: app, configmap"
    ):
        main(["crds", "apps"])
    with pytest.raises(SystemExit, match=r"python -m rdd\.kinds"):
        main(["--help"])
    assert capsys.readouterr().out == ""


def test_reference_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert reference.MARKER in page
    assert page == reference.update(page), "run: python -m rdd.kinds reference docs/kinds.md"


def test_command_updates_the_reference(tmp_path: Path) -> None:
    page = tmp_path / "kinds.md"
    page.write_text(f"# Kinds\n\nBy hand.\n\n{reference.MARKER}\n\nOld.\n")
    main(["reference", str(page)])
    text = page.read_text()
    assert text.startswith("# Kinds\n\nBy hand.\n\n")
    assert "Old." not in text and text.count(reference.MARKER) == 1
    assert text == reference.update(text)


@pytest.mark.parametrize("kind", catalog.ALL, ids=lambda kind: kind.kind)
def test_reference_names_every_field(kind: type[Kind]) -> None:
    section = PAGE.read_text().split(f"\n## {kind.kind}\n")[1].split("\n## ")[0]
    for part in ("spec", "status"):
        if part in kind.fields:
            for field in kind.fields[part].type.fields.values():
                assert f"| `{part}.{field.wire_name}` |" in section
    assert f"`{kind.crd_name}`" in section
