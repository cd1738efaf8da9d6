# SPDX-License-Identifier: Apache-2.0
"""The documentation describes all commands, flags, files and variables."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rdd.instance
from rdd.cli import controller_programs
from rdd.cli.commands.declarations import GLOBAL, ROOT
from rdd.cli.framework.types import Command, Flag, Group
from rdd.controllers import catalog

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"


def commands(group: Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Command | Group]]:
    """Yield every command and group with its full name, hidden ones included."""
    path = (*path, group.name)
    yield " ".join(path), group
    for member in group.members:
        if isinstance(member, Group):
            yield from commands(member, path)
        else:
            yield " ".join((*path, member.name)), member


def section(page: str, heading: str) -> str:
    """Return the text below a heading, up to the next one of any level."""
    match = re.search(rf"^#+ `{re.escape(heading)}.*?`\n(.*?)(?=^#+ |\Z)", page, re.M | re.S)
    assert match, f"docs/cli.md has no heading for `{heading}`"
    return match[1]


@pytest.mark.parametrize("name", [name for name, _ in commands(ROOT)])
def test_command_has_a_section_that_names_its_flags_and_aliases(name: str) -> None:
    target = dict(commands(ROOT))[name]
    text = section((DOCS / "cli.md").read_text(), name)
    for flag in target.flags:
        assert _row(flag) in text, f"`{_row(flag)}` is not described for `{name}`"
    for alias in target.aliases:
        assert f"`{alias}`" in text


def test_global_flags_are_described() -> None:
    text = section((DOCS / "cli.md").read_text(), "rdd")
    for flag in GLOBAL:
        assert _row(flag) in text


def _row(flag: Flag) -> str:
    return f"`-{flag.short}`, `--{flag.name}`" if flag.short else f"`--{flag.name}`"


def test_controller_programs_are_described() -> None:
    page = (DOCS / "cli.md").read_text()
    text = page.partition("\n## Controller programs\n")[2]
    for flag in controller_programs.FLAGS:
        assert flag in GLOBAL or _row(flag) in text
    for group in controller_programs.PROGRAMS:
        assert f"`{group}-controller`" in text
    table = page.partition("\n### Which controllers run\n")[2].partition("\n## ")[0]
    for entry in catalog.ENTRIES:
        row = next(line for line in table.splitlines() if line.startswith(f"| `{entry.group}`"))
        assert f"`{entry.name}`" in row


def test_sections_are_not_older_than_the_commands() -> None:
    page = (DOCS / "cli.md").read_text()
    headings = re.findall(r"^#+ `(rdd[^`]*)`$", page, re.M)
    existing = {name for name, _ in commands(ROOT)}
    usages = {" ".join(re.findall(r"^[a-z_ -]+", heading)[0].split()) for heading in headings}
    assert usages <= existing


def test_every_file_name_of_an_instance_is_explained() -> None:
    page = (DOCS / "internals.md").read_text()
    names = [
        value
        for key, value in vars(rdd.instance).items()
        if re.fullmatch(r"[A-Z0-9_]+_(FILE|DIR|SOCKET|LOG)", key)
    ]
    assert names
    for name in names:
        explained = re.search(rf"`[^`\n]*{re.escape(name)}", page)
        assert explained, f"docs/internals.md does not explain {name}"


def test_every_variable_the_code_reads_is_documented() -> None:
    page = (DOCS / "cli.md").read_text()
    read = set()
    for path in (TOP / "src" / "rdd").rglob("*.py"):
        read |= set(re.findall(r'"(RDD_[A-Z_]+)"', path.read_text()))
    assert {name for name in read if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("page", sorted([*DOCS.rglob("*.md"), *TOP.glob("*.md")]), ids=str)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_decisions_have_numbers_of_their_own() -> None:
    numbers = [int(path.name[:4]) for path in (DOCS / "design").glob("[0-9]*.md")]
    assert len(set(numbers)) == len(numbers)


def test_texts_call_the_service_by_one_name() -> None:
    """`svc` is an alias: it is accepted, and mentioned where the alias is documented."""
    texts = [*DOCS.rglob("*.md"), TOP / "README.md", *(TOP / "src").rglob("*.py")]
    mentions = [
        f"{path.relative_to(TOP)}: {line.strip()}"
        for path in texts
        for line in path.read_text().splitlines()
        if re.search(r"rdd svc\b|`svc [a-z]", line)
    ]
    assert mentions == []


def test_recipes_name_files_that_exist() -> None:
    """CONTRIBUTING.md sends people to files by name; a moved one must move there, too."""
    recipes = (TOP / "CONTRIBUTING.md").read_text().partition("\n## Recipes\n")[2]
    recipes = recipes.partition("\n## ")[0]
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|md))?)`", recipes))
    assert len(named) > 20
    roots = (TOP, TOP / "src" / "rdd")
    assert {name for name in named if not any((root / name).exists() for root in roots)} == set()


def test_recipes_cover_the_everyday_tasks() -> None:
    recipes = (TOP / "CONTRIBUTING.md").read_text().partition("\n## Recipes\n")[2]
    recipes = recipes.partition("\n## ")[0]
    assert len(re.findall(r"^\*\*An? [a-zA-Z -]+\.\*\*", recipes, re.M)) == 12


def test_every_metric_is_described() -> None:
    pages = (DOCS / "internals.md").read_text() + (DOCS / "runtime.md").read_text()
    declared = set()
    for path in (TOP / "src" / "rdd").rglob("*.py"):
        if path.parent.name != "base":  # the registry shows examples
            declared |= set(
                re.findall(r'(?:counter|gauge|histogram)\(\s*"([a-z_]+)"', path.read_text())
            )
    assert declared
    assert {name for name in declared if not re.search(rf"`{name}[`{{]", pages)} == set()


def test_readme_links_every_page() -> None:
    readme = (TOP / "README.md").read_text()
    pages = {path.name for path in DOCS.glob("*.md")}
    assert {name for name in pages if f"](docs/{name})" not in readme} == set()
