#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -e
cd "$(dirname "$0")"
rdd profile check rancher-desktop-2.yaml
