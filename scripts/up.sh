#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the product as a newcomer would.
set -eu
cd "$(dirname "$0")/.."
rdd=.venv/bin/rdd
echo "rdd $("$rdd" version) is ready to use: $PWD/$rdd"
echo "It keeps the files of this instance in:"
"$rdd" service paths
