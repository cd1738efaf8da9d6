#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes .venv with rdd (editable) and its dependencies; with `dev` also the test and lint tools.
# Does nothing when it has already done so for the present pyproject.toml. With `missing` it only
# prints the Debian package it would need first.
set -eu
cd "$(dirname "$0")/.."
level=${1:-run}

stamp=.venv/.set-up-$level
if [ -x .venv/bin/rdd ] && [ -f "$stamp" ] && cmp -s pyproject.toml "$stamp"; then
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
if [ "$level" = dev ]; then
    # Dependency groups need pip 25.1.
    if ! .venv/bin/python -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))'; then
        pip install --upgrade 'pip>=25.1'
    fi
    pip install --editable . --group dev
else
    pip install --editable .
fi
# Start-up time is a feature; bytecode must exist even where PYTHONDONTWRITEBYTECODE is set.
.venv/bin/python -m compileall -q src/rdd
cp pyproject.toml "$stamp"
