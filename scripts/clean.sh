#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Removes build results and caches. Keeps .venv and .cache, which take long to make.
set -eu
cd "$(dirname "$0")/.."
rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
find src tests bench examples scripts -name __pycache__ -type d -prune -exec rm -rf {} +
