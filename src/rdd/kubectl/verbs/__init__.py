# SPDX-License-Identifier: Apache-2.0
"""The sub-commands of the built-in client, one module each.

A module has `VERB` (its usage and flags) and `run(session) -> None`. One with
sub-commands of its own has `VERBS` instead, and `run(session, name)`. A module
raises failures; returning means success.
"""
