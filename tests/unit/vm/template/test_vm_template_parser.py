# SPDX-License-Identifier: Apache-2.0
"""Parsing of templates: types by field, problems with line and path."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.base.sizes import parse_size
from rdd.base.yaml_nodes import MAX_DEPTH
from rdd.vm.template import TemplateError, TemplateSyntaxError, parse, validate
from rdd.vm.template.model import Mount, PortForward, Template


def problems(text: str) -> list[str]:
    with pytest.raises(TemplateError) as caught:
        parse(text)
    return list(caught.value.problems)


@pytest.mark.parametrize("text", ["", "{}", "# nothing", "---", "null", "---\n...\n"])
def test_empty_template_has_the_defaults(text: str) -> None:
    assert parse(text) == Template()


def test_values_are_parsed_by_the_type_of_their_field() -> None:
    template = parse(
        """
        cpus: "4"
        memory: 2GiB
        disk: 1073741824
        plain: true
        arch: aarch64
        mounts:
        - location: "~"
          writable: true
        portForwards:
        - guestPortRange: [1, 65535]
          guestIP: 0.0.0.0
          guestIPMustBeZero: false
        param: {ENABLED: true, PORT: 6443, NOTHING: }
        dns: [1.1.1.1]
        """
    )
    assert template.cpus == 4
    assert (template.memory, template.disk) == (2 << 30, 1 << 30)
    assert template.plain is True
    assert template.mounts == (Mount(location="~", writable=True),)
    assert template.port_forwards == (
        PortForward(guest_port_range=(1, 65535), guest_ip="0.0.0.0", guest_ip_must_be_zero=False),
    )
    assert template.param == {"ENABLED": "true", "PORT": "6443", "NOTHING": ""}
    assert template.dns == ("1.1.1.1",)


def test_null_is_like_a_missing_value() -> None:
    assert parse("cpus: null\nmounts: ~\nssh:\nuser: {name: }") == Template()


def test_quoted_empty_text_is_text() -> None:
    assert parse('param: {A: ""}').param == {"A": ""}


def test_vm_opts_are_kept() -> None:
    template = parse("vmOpts: {qemu: {cpuType: {x86_64: max}, n: 7, on: true, text: '7', no: }}")
    assert template.vm_opts == {
        "qemu": {"cpuType": {"x86_64": "max"}, "n": 7, "on": True, "text": "7", "no": None}
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("cpus: four", 'line 1: cpus: "four" is not a whole number', id="int"),
        pytest.param("\nplain: yes", 'line 2: plain: "yes" is not true or false', id="bool"),
        pytest.param(
            "memory: lots", 'line 1: memory: "lots" is not a size such as "4GiB"', id="size"
        ),
        pytest.param(
            f"disk: {'9' * 5000}GiB",
            f'line 1: disk: "{"9" * 60}…" is not a size such as "4GiB"',
            id="size out of range",
        ),
        pytest.param("arch: [x86_64]", "line 1: arch: a list is not text", id="text"),
        pytest.param(
            'env: {A: "b\\0c"}',
            r'line 1: env.A: "b\x00c" must not contain the character NUL',
            id="text with NUL",
        ),
        pytest.param("images: {}", "line 1: images: a mapping is not a list", id="list"),
        pytest.param("mounts: [a]", 'line 1: mounts[0]: "a" is not a mapping', id="record"),
        pytest.param("param: [A]", "line 1: param: a list is not a mapping", id="map"),
        pytest.param(
            "portForwards: [{guestPortRange: [1]}]",
            "line 1: portForwards[0].guestPortRange: must be two ports, the first and the last, "
            "not 1",
            id="range",
        ),
        pytest.param(
            "portForwards: [{guestPortRange: [1, x]}]",
            'line 1: portForwards[0].guestPortRange[1]: "x" is not a whole number',
            id="range element",
        ),
        pytest.param(
            "Memory: 1", 'line 1: Memory: unknown key, did you mean "memory"?', id="near key"
        ),
        pytest.param("guestip: 1", "line 1: guestip: unknown key", id="key without a similar one"),
        pytest.param(
            "portForwards: [{guestip: 1}]",
            'line 1: portForwards[0].guestip: unknown key, did you mean "guestIP"?',
            id="key in another case",
        ),
        pytest.param(
            "useHostResolver: true",
            'line 1: useHostResolver: unknown key, use "hostResolver.enabled"',
            id="replaced key",
        ),
    ],
)
def test_problem_names_line_path_value_and_what_is_allowed(text: str, message: str) -> None:
    assert problems(text) == [message]


def test_all_problems_are_reported_together() -> None:
    assert problems("cpus: x\nMemory: 1\nmounts:\n- location: /a\n  writeable: true\n") == [
        'line 1: cpus: "x" is not a whole number',
        'line 2: Memory: unknown key, did you mean "memory"?',
        'line 5: mounts[0].writeable: unknown key, did you mean "writable"?',
    ]


def test_problems_of_form_and_content_are_reported_together() -> None:
    with pytest.raises(TemplateError) as caught:
        validate("cpus: x\narch: vax\n", driver="qemu")
    assert str(caught.value) == (
        'line 1: cpus: "x" is not a whole number; '
        'field `arch` must be "x86_64", "aarch64", "armv7l", "ppc64le", "riscv64" or "s390x"; '
        "got `vax`; "
        'field `images`: at least one image is required (only vmType "host" needs none)'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "line 2: did not find expected node content", id="not YAML"),
        pytest.param(
            "- a", "line 1: a template is a mapping of keys to values, not a list", id="list"
        ),
        pytest.param(
            "abc", "line 1: a template is a mapping of keys to values, not text", id="text"
        ),
        pytest.param(
            "cpus: 1\ncpus: 2", 'line 2: key "cpus" is given twice, first in line 1', id="twice"
        ),
        pytest.param("? [a]\n: b", "line 1: a key must be text", id="odd key"),
        pytest.param(
            "a: 1\n---\nb: 1", "line 2: a template is one YAML document", id="two documents"
        ),
        pytest.param("a: *b", 'line 1: anchor "b" is not defined', id="alias of nothing"),
        pytest.param(
            "a: \x00", "the text is not YAML: control characters are not allowed", id="NUL"
        ),
        pytest.param(
            "a: \ud800", "the text is not Unicode: surrogates not allowed", id="surrogate"
        ),
        pytest.param("[" * 100, f"line 1: nested deeper than {MAX_DEPTH} levels", id="deep"),
    ],
)
def test_rejects_text_that_is_no_template(text: str, message: str) -> None:
    with pytest.raises(TemplateSyntaxError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_rejects_alias_bombs() -> None:
    lines = ["vmOpts:", "  a: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        items = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"  b{level}: &a{level} [{items}]")
    with pytest.raises(TemplateSyntaxError, match="more than 100000 values"):
        parse("\n".join(lines))


def test_alias_refers_to_its_anchor() -> None:
    template = parse("mounts:\n- &m {location: /a}\n- *m\n")
    assert template.mounts == (Mount(location="/a"), Mount(location="/a"))


def test_rejects_an_alias_inside_its_own_anchor() -> None:
    with pytest.raises(TemplateSyntaxError, match='anchor "a" is not defined'):
        parse("vmOpts: &a {b: *a}")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1", 1),
        ("1b", 1),
        ("1k", 1 << 10),
        ("1KB", 1 << 10),
        ("1KiB", 1 << 10),
        ("1.5 GiB", 3 << 29),
        ("2t", 2 << 40),
        ("1p", 1 << 50),
        ("9007199254740993", 2**53 + 1),
        ("", None),
        ("-1", None),
        ("1x", None),
        ("1 000", None),
        ("GiB", None),
        ("1e3", None),
        ("1,5G", None),
        ("9999999999999999999p", None),
        ("1.", None),
    ],
)
def test_sizes_are_parsed_like_dockers(text: str, size: int | None) -> None:
    assert parse_size(text) == size


_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)
)
_keys = st.one_of(
    st.sampled_from([*"abc", "cpus", "memory", "mounts", "images", "param", "ssh", "portForwards"]),
    st.sampled_from(["location", "kernel", "guestPortRange", "base", "vmOpts", "provision"]),
    st.text(max_size=5),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=5),
    max_leaves=20,
)


@given(_values)
@settings(max_examples=150, deadline=None)
def test_arbitrary_values_are_parsed_or_rejected(value: object) -> None:
    import yaml

    for driver in ("", "host", "qemu"):
        try:
            validate(yaml.safe_dump(value, allow_unicode=True), driver=driver)
        except TemplateError as error:
            assert error.problems
            assert "\n" not in str(error)


@given(st.text(alphabet=st.sampled_from(list("ab:-[]{}&*!|>'\"%@`#?, \n\t0")), max_size=60))
@settings(max_examples=200, deadline=None)
def test_arbitrary_text_is_parsed_or_rejected(text: str) -> None:
    try:
        validate(text, driver="qemu")
    except TemplateError as error:
        assert error.problems
