# SPDX-License-Identifier: Apache-2.0
"""`rdd support-bundle [FILE]`: collect logs and state in one file, without secrets."""

import time
from pathlib import Path

from rdd.base.gotext import quote
from rdd.cli.commands.service.status import status
from rdd.cli.commands.version import details
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service import record
    from rdd.daemon.support.bundle import Bundle

    instance = call.instance
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = Path(call.args[0] if call.args else f"{instance.name}-support-{stamp}.tar.gz")
    path = path.absolute()
    if path.is_dir():
        raise CommandError(f"failed to write {quote(str(path))}: it is a directory")
    bundle = Bundle(
        instance,
        version=details(),
        status=status(call, record.read(instance)),  # read-only: does not clean up
        variables=call.environment.variables,
    )
    try:
        with waiting(call, "collecting"):
            bundle.write(path)
    except OSError as error:
        raise CommandError(f"failed to write {quote(str(path))}: {error.strerror}") from error
    for line in bundle.contents:
        call.log.info(line.strip())
    call.out.write(f"{path}\n")
    return 0
