#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# load.sh N COMMAND...: runs a command on a machine that N other processes keep busy, and ends with
# its exit code. The busy processes end with this script, however it ends.
set -eu
count=$1
shift

busy() {
    while kill -0 "$1" 2>/dev/null; do
        i=0
        while [ $i -lt 10000 ]; do i=$((i + 1)); done
    done
}
pids=
# shellcheck disable=SC2086 # a list of process ids
trap 'kill $pids 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
while [ "$count" -gt 0 ]; do
    busy $$ </dev/null >/dev/null 2>&1 &
    pids="$pids $!"
    count=$((count - 1))
done
"$@"
