# SPDX-License-Identifier: Apache-2.0
"""`python -m rdd.controllers.app.app docs/app.md`: update the table of reasons."""

import sys
from pathlib import Path

from rdd.controllers.app.app import reasons

if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(reasons.update(page.read_text()))
