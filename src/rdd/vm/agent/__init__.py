# SPDX-License-Identifier: Apache-2.0
"""The host agent: one small process per machine, between the daemon and the driver.

It boots the driver or adopts a running one, waits until the machine is ready, forwards
ports and sockets, and writes Lima's event stream. It survives the daemon, and the driver
survives it. `python -m rdd.vm.agent` and `rdd hostagent` run it.

This module imports nothing: a guard limits the imports of an agent
(tests/guards/test_agent_imports.py).
"""
