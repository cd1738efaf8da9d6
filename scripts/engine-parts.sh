#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `rdd start` needs to run containers on this machine without a virtual machine: as root on
# Debian the packages are installed, in any other case rdd itself says what is missing.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    exit 0
fi
missing=
need() {
    command -v "$1" >/dev/null || missing="$missing $2"
}
need dockerd docker.io
need iptables iptables
need ip iproute2
need busybox busybox-static # an image for the first container where no registry answers
if [ -z "$missing" ]; then
    exit 0
fi
# shellcheck disable=SC2086 # a list of packages
scripts/apt-install.sh $missing
echo "installed:$missing"
case $missing in
*docker.io*)
    # rdd runs an engine of its own; the system's must not come up with the next boot because of us.
    if command -v systemctl >/dev/null && [ -d /run/systemd/system ]; then
        systemctl --quiet disable docker.service docker.socket containerd.service 2>/dev/null || true
    fi
    echo "the system's own docker service was not started and is not enabled"
    ;;
esac
