# SPDX-License-Identifier: Apache-2.0
"""The `rdd` command line.

`table.py` lists every command with its flags; each command is one module here,
imported only when it runs. `entry.py` is the way in: it alone reads the
environment. Module-level imports stay light because every `rdd` call pays for
them (tests/guards/test_startup_imports.py holds the list).
"""
