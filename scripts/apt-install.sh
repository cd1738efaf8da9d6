#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Debian packages as root; otherwise prints the command to run and fails.
# It starts no service of the packages, now or at the next boot, and removes no package.
set -eu
PATH=$PATH:/usr/sbin:/sbin # dpkg needs them, and cron sets neither

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "These system packages are missing: $*" >&2
    if ! command -v apt-get >/dev/null; then
        echo "These are the names in Debian. Install the packages of this system and try again." >&2
    elif command -v sudo >/dev/null; then
        echo "Install them and try again:  sudo $0 $*" >&2
    else
        echo "Install them and try again:  su -c '$0 $*'" >&2
    fi
    exit 1
fi

units="docker.service docker.socket containerd.service etcd.service"
exists() {
    [ -e "/lib/systemd/system/$1" ] || [ -e "/usr/lib/systemd/system/$1" ] ||
        [ -e "/etc/systemd/system/$1" ]
}
ours= # units that come with the packages; existing ones belong to the user
for unit in $units; do
    exists "$unit" || ours="$ours $unit"
done

echo "installing $*"
export DEBIAN_FRONTEND=noninteractive
# Packages must not start their services: invoke-rc.d starts nothing in run level 1, and systemd's
# helper calls policy-rc.d, which may exist already.
export RUNLEVEL=1
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get -o DPkg::Lock::Timeout=300 -qq update </dev/null
apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends --no-remove "$@" \
    </dev/null >/dev/null

for unit in $ours; do
    exists "$unit" || continue
    if command -v systemctl >/dev/null; then
        systemctl --quiet disable "$unit" 2>/dev/null || true
    else # no systemd yet; its helper expects to be called by a package's script
        DPKG_MAINTSCRIPT_PACKAGE=$unit deb-systemd-helper disable "$unit" >/dev/null 2>&1 || true
    fi
    if [ "$unit" = docker.service ]; then
        [ ! -x /usr/sbin/update-rc.d ] || update-rc.d docker disable >/dev/null 2>&1 || true
        echo "the system's own docker service is not started and not enabled"
    fi
done
