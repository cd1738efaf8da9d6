# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the pytest plugin, as another project uses them."""

import sys
import textwrap
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.programs import run_program

import rdd.testing

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, singular: lamp, kind: Lamp}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

TESTS = """
    import os
    import ssl
    import urllib.request

    LAMPS = "/apis/example.com/v1/namespaces/default/lamps"
    LAMP = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "desk"}}

    def test_over_https(apiserver):
        context = ssl.create_default_context(cafile=apiserver.ca_file)
        head = {"Authorization": f"Bearer {apiserver.token}"}
        request = urllib.request.Request(apiserver.url + LAMPS, headers=head)
        with urllib.request.urlopen(request, context=context) as answer:
            assert answer.status == 200
        apiserver.create(LAMP)

    def test_nothing_is_left_of_the_test_before(apiserver):
        assert apiserver.request("GET", f"{LAMPS}/desk").status == 404

    def test_kubeconfig(apiserver_kubeconfig):
        assert os.environ["KUBECONFIG"] == str(apiserver_kubeconfig)
        assert "token" in apiserver_kubeconfig.read_text()

    async def test_without_socket(apiserver_inprocess):
        reply = await apiserver_inprocess.request("POST", LAMPS, LAMP)
        assert reply.status == 201
"""


def test_fixtures_work_in_another_project(
    tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "lamps.yaml").write_text(CRD)
    (tmp_path / "test_lamps.py").write_text(textwrap.dedent(TESTS))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nrdd_crds = crds\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    plugins = [] if entry_points(group="pytest11", name="rdd") else ["-p", "rdd.testing.plugin"]
    # looptime does not close the loops that it creates for synchronous tests.
    without = ["-p", "no:randomly", "-p", "no:looptime_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *without, *plugins]
    done = run_program(command, cwd=tmp_path, env=clean_environment)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_kopf_example_passes(clean_environment: Mapping[str, str]) -> None:
    example = Path(__file__).parents[3] / "examples" / "02-kopf-operator"
    plugins = [] if entry_points(group="pytest11", name="rdd") else ["-p", "rdd.testing.plugin"]
    without = [f"no:{name}" for name in ("randomly", "looptime_plugin", "cacheprovider")]
    options = [part for name in without for part in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-q", *options, *plugins]
    done = run_program(command, cwd=example, env=clean_environment)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_plugin_does_not_import_the_server() -> None:
    script = (
        "import sys, rdd.testing.plugin; "
        "print([m for m in sys.modules if m.startswith(('rdd.', 'aiohttp', 'cryptography'))])"
    )
    done = run_program([sys.executable, "-c", script])
    assert done.stdout.strip() == "['rdd.testing', 'rdd.testing.plugin']", done.stderr


def test_every_exported_name_can_be_imported() -> None:
    assert [getattr(rdd.testing, name).__name__ for name in rdd.testing.__all__] == (
        rdd.testing.__all__
    )
    with pytest.raises(AttributeError, match="no attribute 'Cluster'"):
        _ = rdd.testing.Cluster
