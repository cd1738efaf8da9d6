# SPDX-License-Identifier: Apache-2.0
"""The cache of the user, and the files and releases that arguments name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.base.sizes import binary
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.fetch.cache import Cache, Entry
    from rdd.vm.drivers.kubernetes_files import Release


def cache_of(call: Call) -> "Cache":
    """Return the cache of the user who runs a command."""
    from rdd.fetch.cache import Cache

    return Cache.of_user(call.environment.variables, call.instance.home)


def find_releases(call: Call, given: Sequence[str]) -> "list[Release]":
    """Return the releases of names such as `k3s/v1.33.7+k3s3`. Raises CommandError."""
    from rdd.cli.commands.cache.releases import releases_of, title

    known = {title(release): release for release in releases_of(call)}
    if unknown := [text for text in given if text not in known]:
        raise CommandError(f"the cache has no {quote(unknown[0])}; `rdd cache ls` lists all")
    return [known[text] for text in dict.fromkeys(given)]


def find_entries(call: Call, given: Sequence[str]) -> "list[Entry]":
    """Return the entries of digests or prefixes of them. Raises CommandError."""
    entries = list(cache_of(call).entries())
    found: list[Entry] = []
    for text in given:
        matching = [
            entry
            for entry in entries
            if text and (str(entry.digest).startswith(text) or _digits(entry).startswith(text))
        ]
        if not matching:
            raise CommandError(f"the cache has no file {quote(text)}; `rdd cache ls` lists all")
        if len(matching) > 1:
            raise CommandError(f"{quote(text)} is ambiguous: {len(matching)} files begin with it")
        found += [entry for entry in matching if entry not in found]
    return found


def describe(entry: "Entry") -> str:
    """Return an entry in one line."""
    source = f", {entry.location}" if entry.location else ""
    return f"{_digits(entry)[:12]} ({binary(entry.size_bytes)}{source})"


def _digits(entry: "Entry") -> str:
    return entry.digest.hexadecimal
