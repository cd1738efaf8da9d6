#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The attacks of CI in their short form, each part with its time:
#
#   crash    30 rounds of the crash machine, 3 with a guest and 4 with a container engine
#   load     200 watchers, 50 writers, 20,000 objects for 2 minutes
#   fuzz     every target of tests/fuzz for its share of 2 minutes
#
# Arguments choose some of them. All parts run, also after one that failed.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- crash load fuzz

python() {
    .venv/bin/python scripts/offline.py .venv/bin/python "$@" </dev/null
}
failed=
for part in "$@"; do
    began=$(date +%s)
    status=0
    case $part in
    crash) python -m tests.crash.machine --rounds 30 --guests 3 --engines 4 || status=$? ;;
    load) python -m tests.load --minutes 2 --warm-up 0.5 || status=$? ;;
    fuzz) python -m tests.fuzz --seconds 120 || status=$? ;;
    *)
        echo "ci-long: unknown part \"$part\"; valid: crash, load, fuzz" >&2
        exit 2
        ;;
    esac
    [ "$status" -eq 0 ] || failed="$failed $part"
    echo "ci-long: $part: $([ "$status" -eq 0 ] && echo ok || echo "failed ($status)") after $(($(date +%s) - began)) s"
done
[ -z "$failed" ] || {
    echo "ci-long: failed:$failed" >&2
    exit 1
}
