# SPDX-License-Identifier: Apache-2.0
"""Take the screenshots of README and docs: a real daemon and engine, in Debian's Chromium.

python scripts/offline.py .venv/bin/python scripts/dashboard_screenshots.py FOLDER
"""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.dashboard.chromium import Tab, chromium  # noqa: E402
from tests.dashboard.desktop import Desktop, desktop  # noqa: E402

LOG = (
    "i=0; while true; do i=$((i+1)); "
    'printf "\\033[32mGET\\033[0m /cart/%d \\033[3%dm200\\033[0m %d ms\\n" '
    "$i $((i%3+4)) $((i*7%40)); "
    "sleep 0.2; done"
)


def fill(world: Desktop) -> str:
    """Run a few containers; return the ID of one with a log."""
    shop = ("--label", "com.docker.compose.project=shop")
    id_ = world.run("shop-web-1", *shop, "-p", "127.0.0.1:8080:80", command=LOG)
    world.run("shop-api-1", *shop, "-p", "127.0.0.1:8081:8000", command=LOG)
    world.run("shop-db-1", *shop, "-v", "shop-data:/var/lib/data")
    world.run("tools")
    world.docker("create", "--name", "migration", "busybox", "true")
    return id_


def take(tab: Tab, folder: Path, name: str, *parts: str, wait: str) -> None:
    tab.go(*parts)
    tab.until(wait)
    tab.screenshot(folder / f"dashboard-{name}.png")


def main() -> None:
    folder = Path(sys.argv[1])
    programs = {name: shutil.which(name) for name in ("chromium", "docker", "kubectl")}
    kubectl = programs["kubectl"] or ROOT / ".cache/parts/usr/bin/kubectl"
    figures = "(document.querySelector('.rows')?.innerText.match(/ %/g) ?? []).length >= 4"
    with (
        tempfile.TemporaryDirectory() as profile,
        chromium(Path(str(programs["chromium"])), Path(profile)) as browser,
        desktop(ROOT / ".venv/bin/rdd", Path(kubectl), Path(str(programs["docker"]))) as world,
    ):
        id_ = fill(world)
        tab = world.window(browser)
        tab.resize(1000, 560)
        tab.scheme("light")
        take(tab, folder, "containers", "containers", wait=figures)
        tab.scheme("dark")
        many = "document.querySelectorAll('.line').length > 25"
        take(tab, folder, "logs", "containers", id_, "logs", wait=many)


if __name__ == "__main__":
    main()
