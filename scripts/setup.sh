#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes .venv with rdd (editable) and its dependencies; with `dev` also the test and lint tools, in
# the versions of requirements/dev.txt. Does nothing when it has already done so for the present
# pyproject.toml and lock. With `missing` it only prints the Debian package it would need first.
set -eu
cd "$(dirname "$0")/.."
level=${1:-run}

lock=requirements/dev.txt
inputs=pyproject.toml
[ "$level" != dev ] || inputs="$inputs $lock"
stamp=.venv/.set-up-$level
# shellcheck disable=SC2086 # a list of files
if [ -x .venv/bin/rdd ] && [ -f "$stamp" ] && cat $inputs | cmp -s - "$stamp"; then
    exit 0
fi

find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "Python 3.11 or newer is needed; set PYTHON to one or install python3" >&2
    return 1
}

if [ "$level" = missing ]; then
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    exit 0
fi

if [ ! -x .venv/bin/python ]; then
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        scripts/apt-install.sh python3-venv
    fi
    echo "creating .venv"
    "$python" -m venv .venv
fi

pip() {
    .venv/bin/python -m pip --disable-pip-version-check --quiet "$@" </dev/null
}
echo "installing rdd into .venv ($level)"
if [ "$level" != dev ]; then
    pip install --editable .
elif [ -n "${RDD_UNLOCKED:-}" ]; then
    echo "RDD_UNLOCKED is set: the newest versions that pyproject.toml allows, not those of $lock" >&2
    pip install --upgrade 'pip>=25.1' # dependency groups
    pip install --editable . --group dev
else
    # The lock is complete. With dependency resolution pip would prefer a newer release, without a
    # hash here, for a requirement with extras (`httpx2[ws]>=0.28`), and fail as soon as one appears.
    if ! pip install --require-hashes --no-deps --only-binary :all: --requirement "$lock"; then
        {
            echo "The versions of $lock cannot be installed:"
            .venv/bin/python -c 'import platform as p; print(" ", p.python_implementation(), p.python_version(), p.platform())'
            echo "Set PYTHON to Python 3.11, 3.12 or 3.13, remove .venv and try again. To use other"
            echo "versions, within the ranges of pyproject.toml:  RDD_UNLOCKED=1 make setup-dev"
        } >&2
        exit 1
    fi
    # The build backend is locked, too: no isolated environment with another one.
    pip install --no-deps --no-build-isolation --editable .
    pip check # nothing that a locked package needs is missing from the lock
fi
# Start-up time is a feature; bytecode must exist even where PYTHONDONTWRITEBYTECODE is set.
.venv/bin/python -m compileall -q src/rdd
# shellcheck disable=SC2086
cat $inputs >"$stamp"
