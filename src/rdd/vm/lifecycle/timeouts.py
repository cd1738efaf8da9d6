# SPDX-License-Identifier: Apache-2.0
"""Timeouts of the lifecycle operations."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds."""

    pid_file_s: float = 5.0
    """From the start of an agent to its pid file."""
    response_s: float = 3.0
    """From a detach request to its response."""
    detach_s: float = 10.0
    """From that response to the end of the agent."""
    grace_s: float = 30.0
    """For a machine to shut down."""
    force_s: float = 10.0
    """For a killed process to disappear."""
