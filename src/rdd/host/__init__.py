# SPDX-License-Identifier: Apache-2.0
"""Access to the operating system: files, locks, logs, processes, signals, sockets.

The package is independent of Kubernetes and imports no other part of rdd.
"""
