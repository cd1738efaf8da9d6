#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test-signals.sh [ROUNDS [LOAD]]: runs the tests that touch signals, processes or the mirror of the
# container engine several times on a busy machine, each time in another random order.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
load=${2:-6}

# Files that start programs or send signals, directly or through a helper of their folder.
pattern='import signal|tests\.programs|tests\.conformance'
pattern="$pattern|(engine|host|lima|machine|qemu|service|settled)_world|(engine|limavm)_parts"
# shellcheck disable=SC2046 # a list of files
set -- $(grep -lrE "$pattern" tests --include='test_*.py')
echo "$# files, $rounds times, at a load of $load"
for round in $(seq "$rounds"); do
    echo "round $round"
    RDD_TEST_SEED=$round scripts/load.sh "$load" scripts/test.sh "$@"
done
