# SPDX-License-Identifier: Apache-2.0
"""Flags of the built-in client are parsed as by kubectl."""

import pytest

from rdd.base.pflag import Flag
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb, VerbParser, split_verb

VERB = Verb(
    "get",
    "",
    "",
    flags=(
        Flag("output", "", short="o"),
        Flag("watch", "", "bool", short="w"),
        Flag("filename", "", "list", short="f"),
        Flag("from-literal", "", "strings"),
        Flag("timeout", "", "duration", default="30s"),
        Flag("grace-period", "", "int", default="-1"),
        Flag("dry-run", "", default="none", implied="unchanged"),
    ),
    unsupported=("prune",),
)


@pytest.mark.parametrize(
    ("words", "verb", "rest"),
    [
        pytest.param(["get", "ns"], "get", ["ns"], id="plain"),
        pytest.param(["-n", "x", "get", "ns"], "get", ["-n", "x", "ns"], id="short flag before"),
        pytest.param(["--context", "c", "get"], "get", ["--context", "c"], id="long flag before"),
        pytest.param(["--context=c", "get"], "get", ["--context=c"], id="flag with equals"),
        pytest.param(["-nx", "get"], "get", ["-nx"], id="value in one word"),
        pytest.param(["--help", "get"], "get", ["--help"], id="switch takes no value"),
        pytest.param(["--", "get"], "", ["--", "get"], id="nothing after the dashes"),
        pytest.param([], "", [], id="nothing"),
    ],
)
def test_verb_is_the_first_word_that_is_not_a_flag(
    words: list[str], verb: str, rest: list[str]
) -> None:
    assert split_verb(words) == (verb, rest)


def test_values_are_parsed_in_every_form() -> None:
    parser = VerbParser(VERB, path="kubectl get")
    words = "ns -ojson -w -f a,b -f=c --from-literal x=1,2 --from-literal=y=3 --timeout=1m a"
    args = parser.parse(words.split())
    flags = parser.result()
    assert args == ["ns", "a"]
    assert (flags.text("output"), flags.truth("watch")) == ("json", True)
    assert flags.texts("filename") == ["a", "b", "c"]
    assert flags.texts("from-literal") == ["x=1,2", "y=3"]
    assert (flags.seconds("timeout"), flags.integer("grace-period")) == (60, -1)
    assert "timeout" in flags.given and "grace-period" not in flags.given


def test_bare_flag_has_its_implied_value_and_dashes_end_the_flags() -> None:
    parser = VerbParser(VERB, path="kubectl get")
    args = parser.parse(["--dry-run", "a", "--", "-w", "--x"])
    flags = parser.result()
    assert (flags.text("dry-run"), args, parser.dash) == ("unchanged", ["a", "-w", "--x"], 1)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        pytest.param(
            "--nope", "error: unknown flag: --nope\nSee 'kubectl get --help' for usage.", id="long"
        ),
        pytest.param(
            "-wz",
            "error: unknown shorthand flag: 'z' in -wz\nSee 'kubectl get --help' for usage.",
            id="short",
        ),
        pytest.param(
            "--grace-period=x",
            'error: invalid argument "x" for "--grace-period" flag: strconv.ParseInt: parsing'
            " \"x\": invalid syntax\nSee 'kubectl get --help' for usage.",
            id="number",
        ),
        pytest.param(
            "--timeout=5",
            'error: invalid argument "5" for "--timeout" flag: time: invalid duration "5"\n'
            "See 'kubectl get --help' for usage.",
            id="duration",
        ),
        pytest.param(
            "-o",
            "error: flag needs an argument: 'o' in -o\nSee 'kubectl get --help' for usage.",
            id="no value",
        ),
        pytest.param(
            "--prune",
            'error: --prune of "kubectl get" is not supported by the built-in client; install'
            " kubectl, or name one in RDD_KUBECTL, to use it",
            id="unsupported",
        ),
        pytest.param(
            "--cache-dir=x",
            'error: --cache-dir of "kubectl get" is not supported by the built-in client; install'
            " kubectl, or name one in RDD_KUBECTL, to use it",
            id="unsupported everywhere",
        ),
    ],
)
def test_invalid_flags_are_rejected(word: str, message: str) -> None:
    with pytest.raises(KubectlError) as caught:
        VerbParser(VERB, path="kubectl get").parse([word])
    assert caught.value.shown == message
