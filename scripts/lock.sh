#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes requirements/dev.txt: the exact version and the hashes of every package that development
# and CI install, and requirements/node.txt: the Node.js that builds the dashboard. pyproject.toml keeps ranges; run this after a change of them. Versions that are
# locked already stay; `--upgrade` takes the newest ones. Needs a package registry.
set -eu
cd "$(dirname "$0")/.."

lock=requirements/dev.txt
tool=.cache/lock
if [ ! -x $tool/bin/uv ]; then
    .venv/bin/python -m venv $tool
    $tool/bin/python -m pip --disable-pip-version-check --quiet install 'uv>=0.8,<1' </dev/null
fi
uv() {
    $tool/bin/uv --quiet "$@" </dev/null
}

mkdir -p "$(dirname $lock)"
new=$lock.new
trap 'rm -f "$new"' EXIT
[ ! -e $lock ] || cp $lock "$new"
uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
    --generate-hashes --no-header --no-annotate --output-file "$new" "$@"

# Every machine that rdd supports must find a wheel of every locked version.
for python in 3.11 3.12 3.13; do
    for platform in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu aarch64-apple-darwin; do
        if ! uv pip compile "$new" --no-deps --only-binary :all: --python-version $python \
            --python-platform $platform --output-file /dev/null >/dev/null; then
            echo "the lock has no wheels for Python $python on $platform" >&2
            exit 1
        fi
    done
done

{
    echo "# Written by scripts/lock.sh from pyproject.toml for development and CI."
    cat "$new"
} >$lock

node=requirements/node.txt
{
    echo "# Written by scripts/lock.sh from the group dashboard of pyproject.toml."
    uv pip compile --group dashboard --universal --python-version 3.11 \
        --generate-hashes --no-header --no-annotate
} >"$new"
cp "$new" $node
