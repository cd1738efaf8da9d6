#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Undoes what up.sh did. The environment in .venv stays.
set -eu
echo "nothing is running"
