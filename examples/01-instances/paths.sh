# SPDX-License-Identifier: Apache-2.0
# What a script does to find an instance's files.
set -eu
eval "$(rdd --instance work service paths -o shell)"
echo "kubeconfig: $RDD_CONFIG"
echo "logs:       $(rdd --instance work service paths log_dir)"
