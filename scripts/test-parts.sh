#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the real programs that the tests use: Debian packages as root, otherwise prints the
# command to run. kubectl is not in Debian stable, and its etcd is 3.4; a kubectl (when none is on
# PATH) and an etcd 3.5 of Debian's development branch are unpacked under .cache/parts, without root
# and without touching the system; likewise a docker.io of Debian 13 with Compose and Buildx, as the
# newer tools that rdd fetches in tests (.cache/parts/tools; its runc needs a newer C library).
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
need gpg gpg
need etcd etcd-server
need etcdctl etcd-client
need ssh openssh-client
need zstd zstd
need mkfs.xfs xfsprogs # files that share blocks
[ -e /usr/lib/openssh/sftp-server ] || missing="$missing openssh-sftp-server"
need h2load nghttp2-client
need zsh zsh
need gcc gcc
[ -e /usr/include/dlfcn.h ] || missing="$missing libc6-dev"
need fish fish
need faketime faketime # crash rounds: jumps of the wall clock
need chromium chromium # the dashboard, and attacks from web pages
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # a list of packages
    scripts/apt-install.sh $missing
fi

scripts/guest-image.sh

parts=$PWD/.cache/parts
tools=$parts/tools
wanted=
command -v kubectl >/dev/null || [ -x "$parts/usr/bin/kubectl" ] || wanted="$wanted kubectl"
[ -x "$parts/usr/bin/etcd-3.5" ] || wanted="$wanted etcd-server"
newer=
[ -e "$tools/complete" ] || newer="docker.io docker-cli containerd docker-compose docker-buildx"
[ -n "$wanted$newer" ] || exit 0
if ! command -v apt-get >/dev/null; then
    echo "These programs are missing in $parts/usr/bin or on PATH:$wanted (etcd 3.5 as etcd-3.5)" >&2
    echo "kubectl: https://kubernetes.io/docs/tasks/tools/, etcd: https://etcd.io/docs/v3.5/install/" >&2
    [ -z "$newer" ] || echo "below $tools (usr/…, then the file complete): $newer" >&2
    exit 1
fi
echo "fetching$wanted $newer"
apt=$PWD/.cache/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$parts"
mirror=$(sed -n 's/^URIs: *\([^ ]*\/debian\)\/* *$/\1/p; s/^deb [^h]*\(http[^ ]*\/debian\)\/* .*/\1/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
private() {
    apt-get -qq -o Dir::Etc::SourceList="$apt/private.sources" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$apt/lists" -o Dir::State::Status=/dev/null \
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)" "$@" </dev/null
}
suite() {
    cat >"$apt/private.sources" <<EOF
Types: deb
URIs: ${mirror:-http://deb.debian.org/debian}
Suites: $1
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
    private update
}
if [ -n "$newer" ]; then
    suite trixie
    rm -rf "$tools"
    for package in $newer; do
        rm -f "$apt/${package}"_*.deb
        (cd "$apt" && private download "$package")
        dpkg -x "$apt/${package}"_*.deb "$tools"
        rm -f "$apt/${package}"_*.deb
    done
    "$tools/usr/sbin/dockerd" --version
    touch "$tools/complete"
fi
[ -n "$wanted" ] || exit 0
suite sid
for package in $wanted; do
    rm -f "$apt/${package}"_*.deb
    (cd "$apt" && private download "$package")
    if [ "$package" = etcd-server ]; then
        # Under another name: `etcd` is the one of Debian stable, 3.4.
        rm -rf "$apt/etcd"
        dpkg -x "$apt/${package}"_*.deb "$apt/etcd"
        mkdir -p "$parts/usr/bin"
        mv "$apt/etcd/usr/bin/etcd" "$parts/usr/bin/etcd-3.5"
        "$parts/usr/bin/etcd-3.5" --version
    else
        dpkg -x "$apt/${package}"_*.deb "$parts"
        "$parts/usr/bin/kubectl" version --client
    fi
done
