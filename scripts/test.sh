#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The whole suite: a missing real part is a failure, and nothing may need the network. The order of
# the tests is random but the same every time, so that a failure can be repeated; RDD_TEST_SEED
# chooses another one, `make test-quick` and `make soak` use a new one in every run. The two workers
# start with the slowest files (tests/conftest.py), which xdist would sort by the number of tests.
set -eu
cd "$(dirname "$0")/.."
export RDD_REQUIRE_PARTS=1
seed=${RDD_TEST_SEED:-668895683}
exec .venv/bin/python scripts/offline.py .venv/bin/pytest -n 2 --dist loadfile \
    --no-loadscope-reorder -p randomly --randomly-seed="$seed" "$@" </dev/null
