# SPDX-License-Identifier: Apache-2.0
"""The `rdd` command line.

`commands/declarations.py` lists every command with its flags; each command is one module
under `commands/`, imported only when it runs. `framework/entry.py` is the entry point
and, with `framework/environment.py`, the only reader of environment variables.
Module-level imports stay light because every `rdd` call pays for them
(tests/guards/test_startup_imports.py holds the list).
"""
