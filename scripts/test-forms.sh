#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The whole suite on a busy machine (six other busy processes), in a new random
# order each time, started
#
#   here        from the terminal or the program that runs this script
#   background  like `nohup` or a job of a shell in the background: SIGINT and SIGHUP ignored
#   cron        without terminal and environment, SIGINT ignored
#
# then the tests of signals, processes and mirrors five times. Arguments choose some of the three.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- here background cron signals
seed=$(date +%s)

for form in "$@"; do
    seed=$((seed + 1))
    echo "test-forms: $form, RDD_TEST_SEED=$seed"
    case $form in
    here) RDD_TEST_SEED=$seed scripts/load.sh 6 scripts/test.sh ;;
    background) (
        trap '' INT HUP
        RDD_TEST_SEED=$seed scripts/load.sh 6 scripts/test.sh
    ) ;;
    cron) (
        trap '' INT
        home=$(mktemp -d)
        env -i HOME="$home" LOGNAME="$(id -un)" SHELL=/bin/sh PATH=/usr/bin:/bin \
            RDD_TEST_SEED=$seed scripts/load.sh 6 scripts/test.sh </dev/null
        rm -rf "$home"
    ) ;;
    signals) scripts/test-signals.sh ;;
    *)
        echo "test-forms: unknown form \"$form\"; valid: here, background, cron, signals" >&2
        exit 2
        ;;
    esac
done
