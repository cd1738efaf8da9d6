# SPDX-License-Identifier: Apache-2.0
"""Idle detection of machines of this driver.

machine          the part of `Pausable` for dockerd as root
client_socket    the Docker socket of this host, and who listens there
pause            the frozen control group, and what containers use
"""
