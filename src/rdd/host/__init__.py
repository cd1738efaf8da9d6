# SPDX-License-Identifier: Apache-2.0
"""The operating system as rdd needs it: files, logs, processes, ports.

Nothing in here knows Kubernetes or imports another part of rdd.
"""
