#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the product as a newcomer would: installs an engine if one is missing (as root on Debian),
# starts everything, runs a container, and shows how to go on.
set -eu
cd "$(dirname "$0")/.."
rdd=$PWD/.venv/bin/rdd
scripts/engine-parts.sh
"$rdd" --log-level=info start
"$rdd" status
context=$(basename "$("$rdd" service paths dir)")
echo
scripts/first-container.sh "$rdd" "$context"
cat <<END

More to try:
  $rdd ctl get containers,images -A
  $rdd set --help
  $rdd stop

\`make down\` stops everything and deletes nothing; \`$rdd delete\` removes the containers,
\`$rdd service delete\` everything.
END
