# SPDX-License-Identifier: Apache-2.0
"""`python -m rdd.kinds`: print the CustomResourceDefinitions as YAML, for packaging.

python -m rdd.kinds                             all definitions
python -m rdd.kinds crds app limavm             the definitions that some controllers install
python -m rdd.kinds reference docs/kinds.md     update the reference
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from rdd.kinds import catalog, reference


def crds_yaml(*controllers: str) -> str:
    """Return the definitions that some controllers install (default: all) as YAML documents."""
    crds = catalog.crds_of(*(controllers or ("mock",)))
    return yaml.safe_dump_all(crds, explicit_start=True, sort_keys=False, width=100)


def main(arguments: Sequence[str]) -> None:
    """Run the command line; raise SystemExit with a message on invalid arguments."""
    match arguments:
        case ["reference", page]:
            path = Path(page)
            path.write_text(reference.update(path.read_text()))
        case [] | ["crds", *_]:
            controllers = arguments[1:]
            if unknown := [name for name in controllers if name not in catalog.BY_CONTROLLER]:
                valid = ", ".join(sorted(catalog.BY_CONTROLLER))
                raise SystemExit(
                    f"unknown controller {', '.join(unknown)}; valid controllers: {valid}"
                )
            sys.stdout.write(crds_yaml(*controllers))
        case _:
            raise SystemExit((__doc__ or "").strip())


if __name__ == "__main__":
    main(sys.argv[1:])
