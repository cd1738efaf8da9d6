#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the product as a newcomer would: installs what is missing (as root on Debian; otherwise one
# command is printed), starts everything, runs a container and prints the next commands.
set -eu
cd "$(dirname "$0")/.."
rdd=$PWD/.venv/bin/rdd

venv=
if [ ! -x .venv/bin/python ]; then
    venv=$(scripts/setup.sh missing)
fi
# shellcheck disable=SC2046,SC2086 # a list of packages
set -- $venv $(scripts/engine-parts.sh)
if [ $# -gt 0 ]; then
    scripts/apt-install.sh "$@"
    echo "installed: $*"
fi
scripts/setup.sh
scripts/dashboard.sh || : # says what is missing; everything else works without it

if [ -t 2 ]; then
    "$rdd" start --timings
else
    "$rdd" --log-level=info start
fi
echo
"$rdd" status
context=$(basename "$("$rdd" service paths dir)")
echo
scripts/first-container.sh "$rdd" "$context"
cat <<END

The dashboard:
  $rdd dashboard

More to try:
  $rdd ctl get containers,images -A
  $rdd set --help
  $rdd stop

\`make down\` stops everything and deletes nothing; \`$rdd delete\` removes the containers,
\`$rdd service delete\` everything.
END
