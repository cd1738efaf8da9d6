# SPDX-License-Identifier: Apache-2.0
"""Checks for common problems.

checks, findings    what `rdd doctor` and `rdd status` run, too; imported by commands
host_checks, engine_checks    parts of `checks`
controller          runs them in the daemon and writes Diagnostic objects
"""
