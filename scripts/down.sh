#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stops what up.sh has started. Nothing is deleted: not the data, not the environment in .venv.
set -eu
cd "$(dirname "$0")/.."
rdd=$PWD/.venv/bin/rdd
if [ ! -x "$rdd" ]; then
    echo "nothing is running: there is no .venv"
    exit 0
fi
exec "$rdd" --log-level=info service stop
