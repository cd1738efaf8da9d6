#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# soak.sh [crash|load|fuzz|suite ...]: the long forms, for an otherwise idle machine.
#
#   crash    500 rounds of the crash machine, 50 with a guest and 60 with an engine (RDD_SOAK_SEED
#            is the seed of the first one, so that a further run continues: default 100000)
#   load     30 minutes after a warm-up of 5; the latency is judged
#   fuzz     every target for its share of an hour
#   suite    the suite with RDD_SOAK=1: randomised tests run for minutes each
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- crash load fuzz suite
seed=${RDD_SOAK_SEED:-100000}
unset RDD_SOAK_SEED

python() {
    .venv/bin/python scripts/offline.py .venv/bin/python "$@" </dev/null
}
for part in "$@"; do
    began=$(date +%s)
    case $part in
    crash) python -m tests.crash.machine --rounds 500 --guests 50 --engines 60 --seed "$seed" ;;
    load) python -m tests.load --minutes 30 --warm-up 5 --judge-latency ;;
    fuzz) python -m tests.fuzz --seconds 3600 ;;
    suite) RDD_SOAK=1 RDD_REQUIRE_PARTS=1 .venv/bin/pytest --timeout 3600 ;;
    *)
        echo "soak: unknown part \"$part\"; valid: crash, load, fuzz, suite" >&2
        exit 2
        ;;
    esac
    echo "soak: $part: ok after $(($(date +%s) - began)) s"
done
