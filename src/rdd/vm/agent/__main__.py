# SPDX-License-Identifier: Apache-2.0
"""`python -m rdd.vm.agent`: a host agent with nothing else in its process."""

import os
import sys
from typing import Any


def main() -> int:
    """Run an agent; return the exit code."""
    # asyncio imports ssl if it can and works without. An agent uses no TLS, and every machine
    # has one: this saves a quarter of its memory.
    modules: dict[str, Any] = sys.modules
    modules.setdefault("ssl", None)

    from rdd.vm.agent.events import AgentLog
    from rdd.vm.agent.options import UsageError, parse
    from rdd.vm.agent.run import run

    environment = dict(os.environ)
    try:
        options = parse(sys.argv[1:], environment)
    except UsageError as error:
        AgentLog().write("fatal", str(error))
        return 2
    return run(options, environment)


if __name__ == "__main__":
    sys.exit(main())
