# SPDX-License-Identifier: Apache-2.0
"""The commands, one module per verb; folders are groups of commands.

`declarations.py`, here and in each group, lists the commands with their flags and help texts. The
module of a command is imported when it runs.
"""
