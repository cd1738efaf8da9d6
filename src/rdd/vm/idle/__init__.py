# SPDX-License-Identifier: Apache-2.0
"""Idle machines: when a machine is idle, and how its host agent pauses and wakes it.

settings    what the user wants, and its file, which works without a daemon
activity    what clients do; `connections` and `docker_requests` observe their bytes
load        what containers do: their use of CPU and network
monitor     the decision, the pause, the wake-up
report      the state for the daemon, and the record of a pause on disk

The agent sees the traffic, so it decides, and it works while no daemon runs.
"""
