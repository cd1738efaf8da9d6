# SPDX-License-Identifier: Apache-2.0
"""`rdd package show`: the contents of a package, and whether its key is trusted."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.base.sizes import binary
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.fetch.packages import Manifest, PackagedFile


def run(call: Call) -> int:
    from rdd.fetch.packages import opened_package
    from rdd.host.errors import HostError

    try:
        with opened_package(Path(call.args[0]).absolute()) as package:
            manifest, signed_by = package.manifest, package.signed_by
    except HostError as error:
        raise CommandError(str(error)) from error
    key = signed_by.fingerprint if signed_by else ""
    if is_json(call):
        found = json.loads(manifest.encode())
        call.out.write(json.dumps({**found, "key": key}) + "\n")
        return 0
    call.out.write(f"Key: {key or 'none, it is not signed'}\n")
    rows = [(file.platform, title(file), binary(file.size)) for file in manifest.files]
    write_table(call, [("PLATFORM", "CONTENT", "SIZE"), *rows])
    for line in settings_lines(manifest):
        call.out.write(f"{line}\n")
    return 0


def title(file: "PackagedFile") -> str:
    """Return what a file is, in one line."""
    if file.content == "images":
        return f"images {', '.join(file.references)}"
    return f"{file.tool} {file.version} ({file.url.rpartition('/')[2]})"


def settings_lines(manifest: "Manifest") -> list[str]:
    """Return the settings of a package as `rdd set` has them."""
    from rdd.cli.commands.app.settings import changed_paths, text_of, value_at

    spec = dict(manifest.settings)
    return [f"{path}={text_of(value_at(spec, path))}" for path in changed_paths({}, spec)]
