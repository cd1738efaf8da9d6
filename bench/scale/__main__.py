# SPDX-License-Identifier: Apache-2.0
"""Cost over the number of objects.

    python -m bench.scale [--sizes 1000,10000,…] [--updates N] [--many] [--publish]

Each size takes from ten seconds to three minutes; a million objects need 2 GB of memory and 4 GB
of disk. --publish writes table and plot of all measured sizes into docs/performance.md.
"""

import argparse
import sys
from pathlib import Path

import orjson
from bench.apiserver import RESULTS
from bench.scale import chart, many
from bench.scale.size import measure

SIZES = "1000,10000,100000,1000000"
DOCS = Path(__file__).parents[2] / "docs"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.scale", description="cost over many objects")
    parser.add_argument("--sizes", default=SIZES, help="numbers of objects (%(default)s)")
    parser.add_argument(
        "--updates", type=int, default=100_000, help="update all objects up to this size"
    )
    parser.add_argument("--many", action="store_true", help="1,000 CRDs and 2,000 watchers, too")
    parser.add_argument("--publish", action="store_true", help="write into docs/performance.md")
    given = parser.parse_args(arguments)
    RESULTS.mkdir(exist_ok=True)
    for count in map(int, filter(None, given.sizes.split(","))):
        found = measure(count, updates=count <= given.updates)
        _save(f"scale-{count:07}", found)
    if given.many:
        _save("many-crds", many.crds())
        _save("many-watchers", many.watchers())
    if given.publish:
        publish()
    return 0


def _save(name: str, found: dict[str, float]) -> None:
    (RESULTS / f"{name}.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    print(f"{name}: {found}", file=sys.stderr)


def publish() -> None:
    """Write table and plot of the saved results."""
    sizes = [orjson.loads(path.read_bytes()) for path in sorted(RESULTS.glob("scale-*.json"))]
    (DOCS / "performance" / "scale.svg").write_text(chart.plot(sizes))
    page = DOCS / "performance.md"
    before, _, rest = page.read_text().partition(chart.BEGIN)
    _, _, after = rest.partition(chart.END)
    text = f"{before}{chart.BEGIN}\n\n{chart.table(sizes)}\n\n{chart.END}{after}"
    page.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
