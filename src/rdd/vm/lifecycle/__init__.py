# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of one machine: create, start, adopt, monitor, stop, kill, delete."""
