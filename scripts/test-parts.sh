#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the real programs that the tests use: Debian packages as root, otherwise prints the
# command to run. kubectl is not in Debian stable; when none is on PATH, the one of Debian's
# development branch is unpacked under .cache/parts, without root and without touching the system.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

missing=
need() {
    command -v "$1" >/dev/null || missing="$missing $2"
}
need dockerd docker.io
need docker docker.io
need iptables iptables
need ip iproute2
need containerd containerd
need ctr containerd
need docker-registry docker-registry
need busybox busybox-static
need qemu-system-x86_64 qemu-system-x86
need qemu-img qemu-utils
need openssl openssl
need ssh openssh-client
need zstd zstd
[ -e /usr/lib/openssh/sftp-server ] || missing="$missing openssh-sftp-server"
need zsh zsh
need fish fish
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # a list of packages
    scripts/apt-install.sh $missing
fi

scripts/guest-image.sh

parts=$PWD/.cache/parts
if command -v kubectl >/dev/null || [ -x "$parts/usr/bin/kubectl" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "kubectl is missing; install it: https://kubernetes.io/docs/tasks/tools/" >&2
    exit 1
fi
echo "fetching kubectl"
apt=$PWD/.cache/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$parts"
mirror=$(sed -n 's/^URIs: *\([^ ]*\/debian\)\/* *$/\1/p; s/^deb [^h]*\(http[^ ]*\/debian\)\/* .*/\1/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
cat >"$apt/sid.sources" <<EOF
Types: deb
URIs: ${mirror:-http://deb.debian.org/debian}
Suites: sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
private() {
    apt-get -qq -o Dir::Etc::SourceList="$apt/sid.sources" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$apt/lists" -o Dir::State::Status=/dev/null \
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)" "$@" </dev/null
}
private update
(cd "$apt" && private download kubectl && dpkg -x kubectl_*.deb "$parts")
"$parts/usr/bin/kubectl" version --client
