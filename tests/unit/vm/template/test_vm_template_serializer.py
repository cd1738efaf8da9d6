# SPDX-License-Identifier: Apache-2.0
"""Serialisation of templates: identical bytes for identical values, and round trips."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.vm.template import Template, dump, load, parse, render
from rdd.vm.template.model import (
    CaCertificates,
    HostResolver,
    Image,
    Kernel,
    Mount,
    PortForward,
    Probe,
    Provision,
    Size,
    Ssh,
    User,
)
from rdd.vm.template.shape import FieldShape, shape_of

GOLDEN = Path(__file__).parents[3] / "data" / "templates"

SCRIPT = "#!/bin/sh\nset -eu\nif true; then\n\techo 'a: b' # c\nfi\n"

TEMPLATES = {
    "empty": Template(),
    "host": Template(
        vm_type="host",
        port_forwards=(
            PortForward(
                guest_socket="/var/run/docker.sock", host_socket="{{.Param.HOST_DOCKER_SOCKET}}"
            ),
        ),
        param={"CONTAINER_ENGINE": "moby", "HOST_DOCKER_SOCKET": "/home/me/.rd2/docker.sock"},
        env={"LANG": "C.UTF-8", "EMPTY": "", "NO": "no", "NUMBER": "07"},
    ),
    "machine": Template(
        vm_type="qemu",
        images=(
            Image(
                location="https://example.org/guest.qcow2",
                arch="x86_64",
                digest="sha256:" + "ab" * 32,
                kernel=Kernel(location="/boot/vmlinuz", cmdline="quiet console=ttyS0"),
            ),
            Image(location="~/guest.img", arch="aarch64"),
        ),
        cpus=4,
        memory=Size(4 << 30),
        disk=Size(100 << 30),
        mounts=(Mount(location="~", writable=True), Mount(location="/tmp/x y", mount_point="/mnt")),
        ssh=Ssh(local_port=2222, load_dot_ssh_pub_keys=True),
        provision=(
            Provision(script=SCRIPT),
            Provision(mode="user", script="echo one line"),
            Provision(mode="boot", script="two\n\n\n"),
            Provision(mode="data", path="/etc/x", content="  A=1\nB=2\n", permissions="644"),
            Provision(mode="data", path="/etc/empty", content="", overwrite=False),
        ),
        probes=(Probe(description="docker: ready?", script=SCRIPT, hint="see “the log”"),),
        port_forwards=(
            PortForward(guest_ip="0.0.0.0", guest_port_range=(1, 65535), host_ip="0.0.0.0"),
            PortForward(guest_port=9, ignore=True),
        ),
        host_resolver=HostResolver(hosts={"host.docker.internal": "host.lima.internal"}),
        ca_certs=CaCertificates(certs=("-----BEGIN CERTIFICATE-----\nAAAA\n",)),
        user=User(name="jo", uid=1000),
        vm_opts={"qemu": {"cpuType": {"x86_64": "max"}, "list": [], "none": {}, "mixed": [1, "a"]}},
    ),
}


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_rendered_template_matches_its_golden_file(name: str) -> None:
    text = render(TEMPLATES[name])
    assert text == (GOLDEN / f"{name}.yaml").read_text()
    assert parse(text) == TEMPLATES[name]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_other_yaml_parsers_agree(name: str) -> None:
    data = yaml.safe_load((GOLDEN / f"{name}.yaml").read_text())
    assert parse(yaml.safe_dump(data)) == TEMPLATES[name]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("/a/b-c.d", "/a/b-c.d"),
        ("two words", "two words"),
        ("", '""'),
        ("yes", '"yes"'),
        ("Null", '"Null"'),
        ("~", '"~"'),
        ("1", '"1"'),
        ("-a", '"-a"'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        (" a", '" a"'),
        ("a ", '"a "'),
        ("{{.Dir}}", '"{{.Dir}}"'),
        ('say "hi"', r'"say \"hi\""'),
        ("a\\b", r'"a\\b"'),
        ("a\tb", r'"a\tb"'),
        ("\x07", r'"\u0007"'),
        ("\u2028", r'"\u2028"'),
        ("\ufeff", r'"\ufeff"'),
        ("\U0001f600", '"\U0001f600"'),
        ("\U0010ffff", '"\U0010ffff"'),
        ("\x85", r'"\u0085"'),
    ],
)
def test_ambiguous_text_is_quoted(value: str, text: str) -> None:
    rendered = render(Template(param={"A": value}))
    assert rendered == f"param:\n  A: {text}\n"
    assert parse(rendered).param == {"A": value}


def test_rejects_a_lone_surrogate() -> None:
    with pytest.raises(ValueError, match=r"U\+D800 is half a character"):
        render(Template(message="\ud800"))


_text = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12
) | st.sampled_from(
    [
        SCRIPT,
        "a\n",
        "a\n\n",
        "\n",
        "\na",
        " a\nb",
        "a\n b\n",
        "a\r\nb",
        "a \nb",
        "true",
        "- a",
        "a\n---\nb",
    ]
)


def _field(item: FieldShape) -> st.SearchStrategy[Any]:
    match item.kind:
        case "text":
            return _text
        case "bool":
            return st.booleans()
        case "int":
            return st.integers(-(10**9), 10**9)
        case "size":
            return st.integers(0, 2**62)
        case "range":
            return st.tuples(st.integers(0, 99999), st.integers(0, 99999))
        case "texts":
            return st.lists(_text, max_size=2).map(tuple)
        case "map":
            return st.dictionaries(_text, _text, max_size=2)
        case "any":
            return st.just(item.default)
    assert item.record is not None
    one = _record(item.record)
    return one if item.kind == "record" else st.lists(one, max_size=2).map(tuple)


def _record(record: type[Any]) -> st.SearchStrategy[Any]:
    """Generate records with one or two fields set, which covers every field over time."""
    items = {item.name: item for item in shape_of(record)}
    chosen = st.lists(st.sampled_from(sorted(items)), max_size=2, unique=True)
    return chosen.flatmap(
        lambda names: st.builds(record, **{name: _field(items[name]) for name in names})
    )


@given(_record(Template))
@settings(max_examples=200, deadline=None)
def test_template_survives_a_round_trip(template: Template) -> None:
    text = render(template)
    assert parse(text) == template
    assert render(parse(text)) == text
    assert load(dump(template)) == template
