#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the product as a newcomer would: starts the control plane and shows how to talk to it.
set -eu
cd "$(dirname "$0")/.."
rdd=$PWD/.venv/bin/rdd
"$rdd" --log-level=info service start
config=$("$rdd" service paths config)
cat <<EOF

rdd $("$rdd" version) is running. Try it:
  $rdd ctl get namespaces
  $rdd ctl create configmap hello --from-literal=greeting=hi
  kubectl --kubeconfig "$config" get configmaps --all-namespaces
  $rdd service log --follow

\`make down\` stops it and deletes nothing; \`$rdd service delete\` removes everything.
EOF
