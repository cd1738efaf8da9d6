# SPDX-License-Identifier: Apache-2.0
"""Virtual machines with Lima's files: templates, instance directories, host agents, drivers.

This package is independent of Kubernetes. This module imports nothing: a host agent is a small
process that imports only the modules it needs.
"""
