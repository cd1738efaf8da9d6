#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every check that needs no running program. Runs all of them, fails if one failed.
set -u
cd "$(dirname "$0")/.."
failed=0
check() {
    echo "$1"
    shift
    "$@" || failed=1
}
check "ruff check" .venv/bin/ruff check --quiet .
check "ruff format" .venv/bin/ruff format --quiet --check .
check "mypy" .venv/bin/mypy --no-error-summary
check "import layers" .venv/bin/lint-imports --no-cache --no-logo
check "dependencies" .venv/bin/deptry --no-ansi src
check "spelling" .venv/bin/codespell
exit $failed
