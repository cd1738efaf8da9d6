#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The whole suite: a missing real part is a failure, and nothing may need the network. The order of
# the tests is random but the same every time, so that a failure can be repeated; RDD_TEST_SEED
# chooses another one, `make test-quick` and `make soak` use a new one in every run. The two workers
# start with the slowest files (tests/conftest.py), which xdist would sort by the number of tests.
#
# With RDD_REPEAT_FAILED=N, the files of up to N failed tests run a second time, one after the other
# (whole files: the tests of some depend on each other). If all tests pass then, the run succeeds and
# lists the flaky ones. Build machines use it, so that one disturbance of a busy machine does not
# reject a change, and the list shows what to mend.
set -eu
cd "$(dirname "$0")/.."
repeat=${RDD_REPEAT_FAILED:-0}
unset RDD_REPEAT_FAILED
export RDD_REQUIRE_PARTS=1
seed=${RDD_TEST_SEED:-668895683}
failed_list=.pytest_cache/v/cache/lastfailed

# Without its page (no access to npm) only the tests of the dashboard fail, with the reason.
scripts/dashboard.sh || :

suite() {
    .venv/bin/python scripts/offline.py .venv/bin/pytest --dist loadfile --no-loadscope-reorder \
        -p randomly --randomly-seed="$seed" "$@" </dev/null
}

[ "$repeat" -gt 0 ] || { suite -n 2 "$@" && exit 0 || exit $?; }
rm -f "$failed_list"
status=0
suite -n 2 "$@" || status=$?
# 1: tests failed. Everything else (interrupted, internal error, nothing collected) is final.
[ "$status" -eq 1 ] && [ -f "$failed_list" ] || exit "$status"
failed=$(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$failed_list")
count=$(printf '%s\n' "$failed" | wc -l)
if [ "$count" -gt "$repeat" ]; then
    echo "$count tests failed, more than the $repeat that are repeated" >&2
    exit 1
fi
files=$(printf '%s\n' "$failed" | sed 's/::.*//' | sort -u)
echo "$count tests failed; repeating their files:"
printf '%s\n' "$failed"
# shellcheck disable=SC2086 # a list of files
suite -n 0 $files
echo "flaky: these $count tests failed in the full run and passed when repeated:"
printf '%s\n' "$failed"
