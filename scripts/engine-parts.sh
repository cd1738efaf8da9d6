#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the Debian packages that are missing to run containers on this machine without a virtual
# machine. Prints nothing where Lima or QEMU is available, and on other systems: there rdd itself
# prints the remedy.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

has() {
    command -v "$1" >/dev/null
}
missing=
need() {
    has "$1" || case " $missing " in
    *" $2 "*) ;;
    *) missing="$missing $2" ;;
    esac
}
cli_package() {
    # From Debian 13 on the client is a package of its own. Testing and unstable have no number.
    release=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_ID:-99}" || echo 0)
    if [ "$release" -ge 13 ]; then echo docker-cli; else echo docker.io; fi
}

if [ "$(uname -s)" != Linux ] || ! has apt-get; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    if has limactl || { has "qemu-system-$(uname -m)" && has qemu-img && has ssh; }; then
        exit 0
    fi
    need rootlesskit rootlesskit
    need newuidmap uidmap
    has pasta || need slirp4netns slirp4netns
fi
need dockerd docker.io
need docker "$(cli_package)"
need iptables iptables
need ip iproute2
need busybox busybox-static # an image for the first container where no registry answers
echo "$missing"
