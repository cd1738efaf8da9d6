# SPDX-License-Identifier: Apache-2.0
"""The instance as commands see it from outside: create, start, probe, stop, remove."""
