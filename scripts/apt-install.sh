#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Debian packages when we are root; otherwise says what to run, and fails.
# No service of theirs is started.
set -eu

command="apt-get install -y --no-install-recommends $*"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "These system packages are missing: $*" >&2
    echo "Install them and try again:  sudo $command" >&2
    exit 1
fi
echo "installing $*"
export DEBIAN_FRONTEND=noninteractive
# Packages must not start their services: invoke-rc.d starts nothing in run level 1, and systemd's
# helper asks this program, which may be somebody else's already.
export RUNLEVEL=1
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get -o DPkg::Lock::Timeout=300 -qq update </dev/null
# shellcheck disable=SC2086 # the words of $command are meant to be split
$command -o DPkg::Lock::Timeout=300 -qq </dev/null >/dev/null
