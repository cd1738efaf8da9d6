#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The whole suite: a missing real part is a failure, and nothing may need the network.
set -eu
cd "$(dirname "$0")/.."
export RDD_REQUIRE_PARTS=1
exec .venv/bin/python scripts/offline.py .venv/bin/pytest -n 2 --dist loadfile "$@" </dev/null
