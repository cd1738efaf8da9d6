# SPDX-License-Identifier: Apache-2.0
"""Virtual machines with Lima's files: templates, instance directories, host agents, drivers.

Nothing here knows Kubernetes. Nothing is imported on the way either: a host agent is a small
process that loads the modules it needs and no others.
"""
