#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the guests of virtual machines under .cache/guest, unless they exist.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

missing=
need() {
    command -v "$1" >/dev/null || missing="$missing $2"
}
need mmdebstrap mmdebstrap
need mke2fs e2fsprogs
need qemu-img qemu-utils
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # a list of packages
    scripts/apt-install.sh $missing
fi
python=.venv/bin/python
[ -x $python ] || python=python3
exec $python scripts/guest_image.py
