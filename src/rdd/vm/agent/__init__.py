# SPDX-License-Identifier: Apache-2.0
"""The host agent: one small process per machine, between the daemon and the driver.

It boots the driver or takes over a running one, waits until the machine is ready, forwards
ports and sockets, and tells what happens in Lima's event stream. It survives the daemon, and
the driver survives it. `python -m rdd.vm.agent` and `rdd hostagent` run it.

Nothing is imported here: what an agent loads is counted (tests/guards/test_agent_imports.py).
"""
