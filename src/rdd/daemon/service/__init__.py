# SPDX-License-Identifier: Apache-2.0
"""Management of an instance by commands: create, start, probe, stop, remove."""
