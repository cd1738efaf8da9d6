# SPDX-License-Identifier: Apache-2.0
"""`python -m rdd.kinds`: the CustomResourceDefinitions as YAML, for packaging.

python -m rdd.kinds                             all of them
python -m rdd.kinds crds app limavm             those that some controllers install
python -m rdd.kinds reference docs/kinds.md     bring the reference up to date
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from rdd.kinds import catalog, reference


def crds_yaml(*controllers: str) -> str:
    """The definitions that some controllers install, or all, as a stream of YAML documents."""
    crds = catalog.crds_of(*(controllers or ("mock",)))
    return yaml.safe_dump_all(crds, explicit_start=True, sort_keys=False, width=100)


def main(arguments: Sequence[str]) -> None:
    """Run the command line; a SystemExit carries what is wrong with it."""
    match arguments:
        case ["reference", page]:
            path = Path(page)
            path.write_text(reference.update(path.read_text()))
        case [] | ["crds", *_]:
            controllers = arguments[1:]
            if unknown := [name for name in controllers if name not in catalog.BY_CONTROLLER]:
                valid = ", ".join(sorted(catalog.BY_CONTROLLER))
                raise SystemExit(f"no kinds of {', '.join(unknown)}; there are some of {valid}")
            sys.stdout.write(crds_yaml(*controllers))
        case _:
            raise SystemExit((__doc__ or "").strip())


if __name__ == "__main__":
    main(sys.argv[1:])
