#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stops the control plane that up.sh started. Keeps the data and .venv.
set -eu
cd "$(dirname "$0")/.."
rdd=$PWD/.venv/bin/rdd
if [ ! -x "$rdd" ]; then
    echo "nothing is running: there is no .venv"
    exit 0
fi
exec "$rdd" --log-level=info service stop
